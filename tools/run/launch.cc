#include "tools/run/launch.h"

#include <fmt/core.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "collectives/connect.h"
#include "rendezvous/job_token.h"
#include "rendezvous/launchers/rondo_run.h"
#include "rendezvous/tcp_store_server.h"
#include "rendezvous/tls_settings.h"
#include "tools/common/output.h"
#include "tools/common/standard_streams.h"
#include "tools/run/group_guard.h"
#include "tools/run/held_port.h"
#include "tools/run/job.h"
#include "tools/run/local_host.h"
#include "tools/run/output_queue.h"
#include "tools/run/remote_launch.h"
#include "tools/run/signal_fd.h"
#include "tools/run/tagged_output.h"

namespace rondo {
namespace {

// The token of this process if it has one, otherwise a new token; "": the job has no token.
Result<std::string> TokenOfRanks(const LaunchOptions& options) {
  if (!options.with_token) return "";
  RONDO_ASSIGN(std::string token, TokenText("", ProcessEnvironment));
  if (!token.empty()) return token;
  return MakeTokenText();
}

// The TLS options of ranks and store. If neither a flag nor the environment gives a pre-shared key, the key is derived
// from the token. Without a token a new key is made.
Result<TlsOptions> TlsOfRanks(const LaunchOptions& options, const JobToken* token) {
  std::optional<TlsOptions> given;
  if (options.tls) given = TlsOptions{.mode = *options.tls};
  if (token != nullptr) return FindTls(given, ProcessEnvironment, token);
  RONDO_ASSIGN(const std::string new_psk, NewTlsPsk());
  return FindTls(given, [&](const std::string& name) {
    auto value = ProcessEnvironment(name);
    return !value && name == kTlsPskVariable ? TlsPskText(new_psk) : value;
  });
}

}  // namespace

Result<int> Launch(const LaunchOptions& options, const Clock& clock) {
  const SignalFd signals;  // made before the store's thread starts, because that thread must not receive these signals
  GroupGuard guard;
  const bool spread = std::any_of(options.places.begin(), options.places.end(), [](auto& p) { return !p.here; });
  RONDO_ASSIGN(const std::string token, TokenOfRanks(options));
  TcpStoreServer::Options serve;
  serve.host = spread ? "" : "127.0.0.1";
  RONDO_ASSIGN(serve.token, MakeJobToken(token));
  RONDO_ASSIGN(const TlsOptions tls, TlsOfRanks(options, serve.token.get()));
  if (spread && token.empty() && tls.mode == TlsMode::kOff) {
    return Fail(ErrorCode::kInvalidArgument,
                "--no-token: with ranks on other hosts, any client on the network could join the job; add --tls");
  }
  RONDO_ASSIGN(serve.tls, TlsContext::Make(tls));
  std::optional<PortRange> ports = options.ports;
  if (!ports) {
    RONDO_ASSIGN(ports, PortsIn(ProcessEnvironment));
  }
  serve.ports = ports.value_or(PortRange{});
  RONDO_ASSIGN(const std::unique_ptr<TcpStoreServer> store, TcpStoreServer::Start(serve));
  // If no port is free, MASTER_PORT is the port of the launcher's store. This works only if the program serves nothing
  // on MASTER_PORT.
  const Result<HeldPort> for_program = HeldPort::Take(serve.ports);
  std::random_device entropy;
  RankProcessOptions ranks{.command = options.command, .guard = &guard};
  ranks.environment = options.exported;
  ranks.environment.insert(ranks.environment.end(),
                           {{"MASTER_ADDR", "127.0.0.1"},
                            {"MASTER_PORT", std::to_string(for_program ? for_program->port() : store->port())},
                            {"RONDO_STORE", fmt::format("127.0.0.1:{}", store->port())},
                            {"RONDO_LAUNCHER", options.program},
                            {"RONDO_EXTERNAL_STORE", "1"},
                            {"RONDO_JOB", fmt::format("{:08x}{:08x}", entropy(), entropy())}});
  if (!token.empty()) ranks.environment.emplace_back(kTokenVariable, token);
  if (options.tls) ranks.environment.emplace_back(kTlsVariable, Name(*options.tls));
  // Only without a token, because with a token ranks derive the key from it, or find RONDO_TLS_PSK in the environment.
  if (token.empty() && tls.mode == TlsMode::kPsk) ranks.environment.emplace_back(kTlsPskVariable, TlsPskText(tls.psk));
  if (options.ports) ranks.environment.emplace_back("RONDO_PORTS", options.ports->ToString());
  if (options.timeout) {
    const double timeout_s = std::chrono::duration<double>(*options.timeout).count();
    ranks.environment.emplace_back("RONDO_TIMEOUT", fmt::format("{}", timeout_s));
  }
  ranks.leave_out = [with_token = options.with_token](std::string_view variable) {
    return DescribesOneProcess(variable) || (!with_token && variable == kTokenVariable);
  };
  OutputQueue queue;
  TaggedOutput output([&queue](int stream, std::string_view bytes) { queue.Write(stream, bytes); },
                      OutputPlaces::OfThisProcess(), options.tag_output, clock);
  ranks.output = [&output](Rank rank, int stream, std::string_view bytes) { output.Write(rank, stream, bytes); };
  // Without tags, ranks inherit our stdout and stderr. But programs do not expect a non-blocking stream, so the
  // launcher relays output to such a stream itself.
  if (!options.tag_output) std::erase_if(ranks.relayed, [](int stream) { return !IsNonBlocking(stream); });
  JobHosts hosts;
  if (spread) {
    RONDO_ASSIGN(hosts, ReachHosts(options, ranks, store->port(), clock, signals, output));
    if (hosts.interrupted_by != 0) return 128 + hosts.interrupted_by;
  } else {
    hosts.hosts.push_back(std::make_unique<LocalHost>("", ranks));
    hosts.places.push_back({hosts.hosts.back().get(), {0, options.ranks}});
  }
  Job job(options, hosts.places, clock, signals, queue, output);
  const Status started = job.Start();
  if (!started && started.error().code() == ErrorCode::kInvalidArgument) {
    PrintError("{}: {}\n", options.program, started.error().message());
    return 127;
  }
  if (!started) return Fail(started.error());
  const int code = job.SeeThrough();
  if (const std::string rejected = store->stats().RejectedSummary(); !rejected.empty())
    PrintError("{}: at its store: {}\n", options.program, rejected);
  return code;
}

std::string OwnPath() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length > 0) return std::string(path.data(), static_cast<std::size_t>(length));
  // Without /proc, the result is the path with which this program was started.
  const auto* const started = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  std::error_code error;
  return started == nullptr ? "" : std::filesystem::absolute(started, error).string();
}

std::vector<std::string> CommandOfARank(std::vector<std::string> command_line) {
  if (const std::string path = OwnPath(); !path.empty()) command_line.front() = path;
  command_line.push_back("--launched");
  return command_line;
}

}  // namespace rondo
