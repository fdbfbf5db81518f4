// rondo run: starts the ranks of a job.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "rendezvous/membership.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/launch.h"

namespace rondo {
namespace {

// "" where every host of "a,b:4" is this one.
std::string RefuseRemoteHosts(const std::string& hosts) {
  for (std::string host : SplitAtCommas(hosts)) {
    host = host.substr(0, host.find(':'));
    if (host != "localhost" && host != "127.0.0.1") {
      return fmt::format("'{}' is unsupported: this version starts ranks on localhost only", host);
    }
  }
  return "";
}

// Whether the argument names an option that takes its value from the next argument.
bool TakesNext(const CLI::App& app, const std::string& argument) {
  const bool is_long = argument.rfind("--", 0) == 0;
  if (is_long ? argument.find('=') != std::string::npos : argument.size() > 2) return false;  // --ranks=4, -N4
  const CLI::Option* option = app.get_option_no_throw(argument);
  return option != nullptr && option->get_expected_min() > 0 && option->get_type_size() > 0;
}

}  // namespace

void MarkCommand(const CLI::App& app, std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "run") return;
  const CLI::App* run = app.get_subcommand("run");
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == "--") return;
    if (arguments[i].empty() || arguments[i].front() != '-') {
      arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(i), "--");
      return;
    }
    if (TakesNext(*run, arguments[i])) ++i;
  }
}

void AddRunCommand(CLI::App& app, int& exit_code) {
  struct Flags {
    LaunchOptions launch;
    bool no_tag = false;
    bool no_token = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* run = app.add_subcommand("run", "Start the ranks of a job on this host and see them through");
  run->footer(
      "Every rank finds in its environment:\n"
      "  RANK, WORLD_SIZE              which rank it is, of how many\n"
      "  LOCAL_RANK, LOCAL_WORLD_SIZE  the same among those on its host\n"
      "  MASTER_ADDR, MASTER_PORT      where rondo run serves the store in which they meet\n"
      "  RONDO_LAUNCHER                rondo run\n"
      "  RONDO_EXTERNAL_STORE          1: no rank is to serve it\n"
      "  RONDO_JOB                     an id new in every launch\n"
      "  RONDO_TOKEN                   a secret new in every launch, or ours: who does not know it cannot join the "
      "job\n"
      "                                or use its store (docs/SECURITY.md)\n"
      "  RONDO_TLS                     the word of --tls; the key for psk comes from RONDO_TOKEN unless RONDO_TLS_PSK\n"
      "                                says one, and with --no-token RONDO_TLS_PSK is new in every launch\n"
      "  RONDO_TIMEOUT                 the seconds of --timeout, where that is given\n"
      "  RONDO_JOIN, RONDO_RESTART     of a rank that was started again: 1, and the how manyth restart it is\n"
      "What a launcher around it said of rondo run itself (its rank under mpirun, srun, torchrun) they do not find.\n"
      "The first rank that fails ends the others, and its exit code is ours. With --keep-going it does not: programs\n"
      "that rebuild their communicator go on, and the exit code is 0 if any rank ends with 0.\n"
      "SIGUSR1 is passed on to all ranks.\n"
      "Strangers at the store's port are dropped; how many came is said at the end.\n"
      "Example: rondo run -N 4 -- ./train --epochs 3");
  AddNumber(
      *run, "-N,--ranks", [flags](std::int64_t n) { flags->launch.ranks = static_cast<int>(n); }, 1, kMaxWorldSize,
      "How many")
      ->required();
  AddText(*run, "--hosts", RefuseRemoteHosts, "HOST[:RANKS],...", "Where; in this version localhost only");
  run->add_flag("--no-tag", flags->no_tag,
                "Leave the ranks' output alone instead of putting \"[rank] \" before every line");
  run->add_flag("--no-token", flags->no_token, "Start the job without a token, even if RONDO_TOKEN is set");
  AddSeconds(
      *run, "--timeout", [flags](Duration timeout) { flags->launch.timeout = timeout; },
      "For the ranks to meet, and for each operation, as RONDO_TIMEOUT (default: theirs; rondo perf has 60)");
  AddTls(*run, flags->launch.tls);
  AddSeconds(
      *run, "--grace", [flags](Duration grace) { flags->launch.grace = grace; },
      "From SIGTERM to SIGKILL for ranks that do not end (default 5)");
  run->add_flag("--keep-going", flags->launch.keep_going,
                "Leave the other ranks alone when one fails: they can go on without it (Communicator::Rebuild)");
  AddNumber(
      *run, "--restarts", [flags](std::int64_t n) { flags->launch.restarts = static_cast<int>(n); }, 0, 1'000'000,
      "Start ranks that fail again, so often in all, as newcomers to the job that runs; implies --keep-going");
  run->add_option("command", flags->launch.command, "The command and its arguments")->required()->type_name("CMD");
  run->callback([flags, &exit_code] {
    flags->launch.tag_output = !flags->no_tag;
    flags->launch.with_token = !flags->no_token;
    const SteadyClock clock;
    const Result<int> code = Launch(flags->launch, clock);
    if (!code) fmt::print(stderr, "rondo run: {}\n", code.error().ToString());
    exit_code = code.value_or(kExitFailed);
  });
}

}  // namespace rondo
