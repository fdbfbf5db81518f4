// `rondo store`: serves only the rendezvous store. Other programs start the ranks.
#include <fmt/core.h>
#include <pthread.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/net/resolve.h"
#include "collectives/connect.h"
#include "rendezvous/find_identity.h"
#include "rendezvous/tcp_store_server.h"
#include "tools/common/commands.h"
#include "tools/common/flags.h"
#include "tools/common/output.h"

namespace rondo {
namespace {

constexpr Duration kNamePatience = std::chrono::seconds(10);

// Serves until SIGINT or SIGTERM. Returns the exit code.
int Serve(const HostPort& address, PortRange ports, const std::string& job, const Identity& identity) {
  // sigwait below receives these signals. They must be blocked before the server starts its thread, because the thread
  // inherits the signal mask.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  StderrWarnings logger("store");
  TcpStoreServer::Options options;
  options.host = address.host == "*" ? "" : address.host;
  options.port = address.port;
  options.ports = ports;
  options.job = job;
  options.token = identity.token;
  options.deadline = SteadyClock().Now() + kNamePatience;
  options.logger = &logger;
  options.tls = identity.tls;
  const auto server = TcpStoreServer::Start(options);
  if (!server) {
    PrintError("rondo store: {}\n", server.error().ToString());
    return kExitFailed;
  }
  if (options.token)
    PrintError("rondo store: only processes that know the token with fingerprint {} are served\n",
               options.token->Fingerprint());
  fmt::print("listening on {}\n", (*server)->Describe());
  if (const int failed = FlushStdout(); failed != 0)
    return Complain("store", fmt::format("stdout cannot be written: {}", std::strerror(failed)), kExitFailed);

  int signal = 0;
  sigwait(&ends, &signal);
  if (const std::string rejected = (*server)->stats().RejectedSummary(); !rejected.empty())
    PrintError("rondo store: {}\n", rejected);
  return signal == SIGINT ? kExitInterrupted : kExitDone;
}

}  // namespace

void AddStoreCommand(CLI::App& app, int& exit_code) {
  struct Flags {
    std::string listen;
    std::string job;
    std::optional<TlsMode> tls;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("store", "Serve a rendezvous store until SIGINT or SIGTERM");
  command->footer(
      "The first line on standard output is 'listening on tcp://HOST:PORT', with the port that was bound.\nRanks use "
      "this store with --rendezvous tcp://HOST:PORT and RONDO_EXTERNAL_STORE=1.\nIf variable RONDO_TOKEN is set, only "
      "processes that know the same token are served; a line on standard error\ngives its fingerprint. 'openssl rand "
      "-hex 32' makes one.\nWith TLS they need the same RONDO_TLS and key, or certificates of the same CA; without "
      "RONDO_TLS_PSK the key\nfor psk comes from the token.\nThe number of dropped foreign clients and the refused "
      "processes are printed at the end.");
  command
      ->add_option("--listen", flags->listen,
                   "Address to listen on, HOST:PORT or [IPV6]:PORT; host * means every interface, port 0 any free port "
                   "(one of RONDO_PORTS, if set)")
      ->required()
      ->type_name("HOST:PORT");
  command->add_option("--job", flags->job, "Serve processes of this job only (default: any job)")->type_name("ID");
  AddTls(*command, flags->tls);
  command->callback([flags, &exit_code] {
    const auto address = ParseHostPort(flags->listen);
    if (!address) {
      PrintError("rondo store: --listen: {}\n", address.error().message());
      exit_code = kExitWrongUsage;
      return;
    }
    const auto ports = PortsIn(ProcessEnvironment);
    if (!ports) {
      PrintError("rondo store: {}\n", ports.error().message());
      exit_code = kExitWrongUsage;
      return;
    }
    std::optional<TlsOptions> given;
    if (flags->tls) given = TlsOptions{.mode = *flags->tls};
    const auto identity = FindIdentity("", given, ProcessEnvironment);
    if (!identity) {
      PrintError("rondo store: {}\n", identity.error().message());
      exit_code = kExitWrongUsage;
      return;
    }
    exit_code = Serve(*address, ports->value_or(PortRange{}), flags->job, *identity);
  });
}

}  // namespace rondo
