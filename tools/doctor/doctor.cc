// rondo doctor: examines this host for common causes of failed or slow jobs.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/net/ports.h"
#include "base/net/resolve.h"
#include "collectives/cpu_list.h"
#include "rendezvous/membership.h"
#include "tools/common/comma_list.h"
#include "tools/common/commands.h"
#include "tools/common/flags.h"
#include "tools/common/output.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/probe.h"
#include "tools/doctor/report.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

struct DoctorFlags {
  PlannedJob job{.local_ranks = 0};
  std::string transport = "auto";
  NetworkQuestions network;
  bool quiet = false;
  std::string json;
};

std::map<std::string, std::string> OwnEnvironment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

// The timeout for the GPU driver, in multiples of --timeout. It is long because without persistence mode the driver
// needs seconds to initialise eight GPUs.
constexpr int kDriverTimeouts = 10;

ExaminedHost Examine(const NetworkQuestions& questions) {
  const HostFiles files;
  const SteadyClock clock;
  ExaminedHost facts;
  // The functions that fork must come first, because a name lookup may leave a running thread.
  AskGpuDriver(clock, kDriverTimeouts * questions.timeout, facts.gpu);
  ReadMemory(files, facts.memory);
  AskMemory(facts.memory);
  ReadLimits(files, facts.limits);
  AskLimits(facts.limits);
  ReadCpus(files, facts.cpus);
  AskCpus(facts.cpus);
  auto addresses = tcp::EnumerateInterfaces();
  if (addresses)
    facts.network.addresses = std::move(*addresses);
  else
    facts.network.addresses_error = addresses.error().message();
  ReadNetwork(files, facts.network);
  facts.environment.variables = OwnEnvironment();
  NetworkQuestions network = questions;
  if (const auto text = facts.environment.variables.find("RONDO_PORTS"); text != facts.environment.variables.end()) {
    network.ports = ParsePortRange(text->second).value_or(PortRange{});
    if (network.ports.IsSet())
      facts.network.port_range = fmt::format("{} to {}", network.ports.first, network.ports.last);
  }
  AskNetwork(network, clock, facts.network);
  ReadRdma(files, facts.rdma);
  AskRdma(facts.network.addresses, facts.rdma);
  ReadGpu(files, facts.gpu);
  AskGpuAdapters(facts.rdma, facts.gpu);
  ReadMounts(files, facts.environment);
  if (const auto master = facts.environment.variables.find("MASTER_ADDR"); master != facts.environment.variables.end())
    facts.environment.master = Lookup(master->second, clock, questions.timeout);
  return facts;
}

int Doctor(DoctorFlags& flags) {
  flags.job.ranks_given = flags.job.local_ranks != 0;
  if (!flags.job.ranks_given) flags.job.local_ranks = std::max(CountCpus({UsableCpus()}), 1);
  const ExaminedHost facts = Examine(flags.network);
  const std::vector<Section> sections = Judge(facts, flags.job);
  const std::string text = ReportText(sections, flags.quiet);
  fmt::print(flags.json == "-" ? stderr : stdout, "{}", text);
  if (!flags.json.empty()) {
    const std::string json = ReportJson(sections, LocalHostName(), flags.job, flags.transport);
    if (flags.json == "-") {
      fmt::print("{}", json);
    } else {
      std::ofstream file(flags.json, std::ios::binary | std::ios::trunc);
      file << json;
      file.flush();
      if (!file)
        return Complain("doctor", fmt::format("--json: {} cannot be written: {}", flags.json, std::strerror(errno)),
                        kExitWrongUsage);
    }
  }
  return CountOf(sections, Level::kBad) > 0 ? kExitFailed : kExitDone;
}

std::string TakePeers(const std::string& list, std::vector<std::string>& peers) {
  peers = SplitAtCommas(list);
  for (const std::string& peer : peers) {
    const auto parsed = ParseHostPort(peer);
    if (!parsed) return fmt::format("expected HOST:PORT, got '{}': {}", peer, parsed.error().message());
    if (parsed->host.empty() || parsed->port == 0) return fmt::format("expected HOST:PORT, got '{}'", peer);
  }
  return "";
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<DoctorFlags>();
  CLI::App* doctor = app.add_subcommand("doctor", "Check this host for common problems, and print remedies");
  doctor->footer(
      "Checks addresses, names, reachability, firewall, TCP, RDMA, GPUs, shared memory, limits, cores, clock, "
      "environment.\n"
      "One line per finding:\n"
      "  ok    no problem\n"
      "  warn  the job runs, but slower than it could, or not on GPUs, or torchrun, NCCL or Gloo have a problem\n"
      "  bad   the job fails; the exit code is then 1, otherwise 0\n"
      "and below it, after ->, what to do. It changes nothing itself (NVIDIA's driver, when asked, may start a server "
      "of MPS). As root it sees the firewall's rules too.\n"
      "Example: rondo doctor -N 8 --transport ib --peers node2:22,node3:22");
  AddNumber(
      *doctor, "-N,--ranks", [flags](std::int64_t n) { flags->job.local_ranks = static_cast<int>(n); }, 1,
      kMaxWorldSize,
      "Number of ranks that will run on this host (default: one for each core that this process may use)");
  using Path = PlannedJob::Path;
  static constexpr std::pair<std::string_view, Path> kPaths[] = {
      {"auto", Path::kAuto}, {"tcp", Path::kTcp}, {"shm", Path::kShm}, {"ib", Path::kIb}};
  AddChoice(
      *doctor, "--transport",
      [flags](const std::string& name) {
        flags->transport = name;
        for (const auto& [known, path] : kPaths)
          if (known == name) flags->job.path = path;
      },
      {"auto", "tcp", "shm", "ib"},
      "Transport that the job must use. With shm or ib, anything that prevents its use is bad; with auto (default), "
      "TCP may be used instead");
  AddText(
      *doctor, "--peers", [flags](const std::string& list) { return TakePeers(list, flags->network.peers); },
      "HOST:PORT,...", "Show from which addresses of this host these peers can be reached");
  AddSeconds(
      *doctor, "--timeout", [flags](Duration timeout) { flags->network.timeout = timeout; },
      "Time limit for the answer of each peer and for each name lookup; NVIDIA's driver gets ten times as long "
      "(default 2)");
  doctor->add_flag("-q,--quiet", flags->quiet, "Leave out findings that are ok");
  AddText(
      *doctor, "--json", [flags](const std::string& path) { return flags->json = path, std::string(); }, "FILE|-",
      "Write the findings as JSON");
  doctor->callback([flags, &exit_code] { exit_code = Doctor(*flags); });
}

}  // namespace rondo
