// rondo run: starts the ranks of a job.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <iterator>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collectives/connect.h"
#include "rendezvous/membership.h"
#include "tools/common/comma_list.h"
#include "tools/common/commands.h"
#include "tools/common/flags.h"
#include "tools/common/output.h"
#include "tools/run/host_list.h"
#include "tools/run/launch.h"
#include "tools/run/remote_agent.h"

namespace rondo {
namespace {

struct RunFlags {
  LaunchOptions launch;
  std::vector<HostEntry> hosts;
  std::string stdin_to = "0";
  bool no_tag = false;
  bool no_token = false;
};

// Adds the variables of one --export, "A,B" or "A=VALUE", to `exported`. Returns "" or the error.
std::string Export(const std::string& text, Variables& exported) {
  if (const std::size_t equals = text.find('='); equals != std::string::npos && equals < text.find(',')) {
    if (equals == 0) return fmt::format("expected NAME=VALUE, got '{}'", text);
    exported.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    return "";
  }
  for (const std::string& name : SplitAtCommas(text)) {
    const auto value = ProcessEnvironment(name);
    if (!value) return fmt::format("variable '{}' is not set here", name);
    exported.emplace_back(name, *value);
  }
  return "";
}

std::string TakeSsh(const std::string& text, std::vector<std::string>& command) {
  std::istringstream words(text);
  command.assign(std::istream_iterator<std::string>(words), {});
  return command.empty() ? "expected a command, got nothing" : "";
}

// Parses the value of --stdin. Returns the ranks that it names.
Result<std::vector<Rank>> RanksOfStdin(const std::string& text, int ranks) {
  std::vector<Rank> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  if (text == "all") return all;
  if (text == "none") return std::vector<Rank>{};
  Rank rank = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size() || rank < 0 || rank >= ranks)
    return Fail(ErrorCode::kInvalidArgument, "expected none, all or a rank from 0 to {}, got '{}'", ranks - 1, text);
  return std::vector<Rank>{rank};
}

std::string OwnName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

void AddHostFlags(CLI::App& run, const std::shared_ptr<RunFlags>& flags) {
  const auto take_hosts = [flags](const std::string& text) {
    auto hosts = ParseHosts(text);
    if (!hosts) return hosts.error().message();
    flags->hosts = *std::move(hosts);
    return std::string();
  };
  AddText(run, "--hosts", take_hosts, "HOST[:RANKS],...",
          "Hosts on which ranks are started, by ssh: a,b:4,user@c,[fe80::1]:2. Ranks are numbered host by host. A host "
          "gets at most RANKS ranks; hosts without a number share the remaining ranks evenly. localhost is this host, "
          "without ssh (default: localhost)");
  AddText(
      run, "--ssh", [flags](const std::string& text) { return TakeSsh(text, flags->launch.ssh.command); }, "COMMAND",
      "The command of OpenSSH's ssh with options, separated by spaces: \"ssh -p 2222 -i key\" (default: ssh)");
  run.add_option(
         "--remote-rondo", flags->launch.ssh.rondo,
         "Path of this program on the other hosts, where it must have the same version (default: its path here)")
      ->type_name("PATH");
  run.add_option("--master-address", flags->launch.master_address,
                 "Address at which ranks on other hosts find the store on this host (default: the one that ssh used)")
      ->type_name("ADDRESS");
  AddText(
      run, "--export", [flags](const std::string& text) { return Export(text, flags->launch.exported); },
      "NAME,...|NAME=VALUE",
      "Variables for all ranks; may be given repeatedly. Those named RONDO_... need no --export")
      ->take_last();  // the function above has already handled every occurrence of the option
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
  auto flags = std::make_shared<RunFlags>();
  CLI::App* run = app.add_subcommand(
      "run", "Start the ranks of a job, here or on several hosts, and supervise them until they end");
  run->footer(
      "Every rank finds in its environment:\n  RANK, WORLD_SIZE              its rank, and the number of ranks\n  "
      "LOCAL_RANK, LOCAL_WORLD_SIZE  the same among those on its host\n  RONDO_STORE                   where rondo run "
      "serves the store of the rendezvous, HOST:PORT\n  MASTER_ADDR, MASTER_PORT      rank 0's host and a port there "
      "reserved for them: for a store of their\n                                framework, such as that of torch's "
      "env://\n  RONDO_LAUNCHER                rondo run\n  RONDO_EXTERNAL_STORE          1: no rank serves the "
      "store\n  RONDO_JOB                     the job's id, which is new in every launch\n  RONDO_TOKEN                "
      "   a secret: the RONDO_TOKEN of rondo run if set, otherwise new in every launch; only\n                         "
      "       processes that know it can join the job or use its store (docs/SECURITY.md)\n  RONDO_TLS                 "
      "    the value of --tls; the key for psk comes from RONDO_TOKEN unless RONDO_TLS_PSK\n                           "
      "     is set, and with --no-token RONDO_TLS_PSK is new in every launch\n  RONDO_PORTS                   the "
      "range of --ports, if given\n  RONDO_TIMEOUT                 the seconds of --timeout, if given\n  RONDO_JOIN, "
      "RONDO_RESTART     for a rank that was started again: 1, and the number of the restart\nVariables by which a "
      "launcher describes rondo run itself (its rank under mpirun, srun, torchrun) are removed.\nThe first rank that "
      "fails ends the others, and rondo run exits with its code. With --keep-going it does not:\nprograms that rebuild "
      "their communicator continue, and the exit code is 0 if any rank ends with 0.\nStandard input is that of rank 0, "
      "as under mpirun; --stdin none|all|RANK changes that.\nSIGUSR1 and SIGUSR2 are passed on to all ranks; SIGINT, "
      "SIGQUIT, SIGTERM and SIGHUP too, and end the job.\nSIGTSTP (Ctrl-Z) stops the job as a whole, and SIGCONT "
      "resumes it.\nOn other hosts (--hosts) ranks run in the same working directory, in the environment that ssh "
      "gives them, plus\nthe variables above, those of rondo run named RONDO_..., and those of --export. Secrets are "
      "sent inside ssh,\nnever on a command line. Every host must answer within --timeout (default 60) before any rank "
      "starts. If a\nrank, a host or rondo run itself fails, the ranks end on all hosts.\nForeign clients at the "
      "store's port are dropped; their number is printed at the end.\nExamples: rondo run -N 4 -- ./train --epochs 3\n "
      "         rondo run -N 16 --hosts a:8,b:8 --export PATH,PYTHONPATH -- python3 train.py");
  AddNumber(
      *run, "-N,--ranks", [flags](std::int64_t n) { flags->launch.ranks = static_cast<int>(n); }, 1, kMaxWorldSize,
      "Number of ranks")
      ->required();
  AddHostFlags(*run, flags);
  run->add_option("--stdin", flags->stdin_to,
                  "Which ranks, on any host, read the standard input of rondo run: none, all (each reads all of it) or "
                  "one RANK; the input of the other ranks is empty (default: 0)")
      ->type_name("none|all|RANK");
  run->add_flag("--no-tag", flags->no_tag, "Do not put \"[rank] \" before every line of the ranks' output");
  run->add_flag("--no-token", flags->no_token, "Start the job without a token, even if RONDO_TOKEN is set");
  AddSeconds(
      *run, "--timeout", [flags](Duration timeout) { flags->launch.timeout = timeout; },
      "Limit for the answers of all hosts; the ranks get it as RONDO_TIMEOUT, the limit for the rendezvous and for "
      "each operation (default: the limits of the ranks' program; 60 for rondo perf)");
  AddTls(*run, flags->launch.tls);
  AddPorts(*run, flags->launch.ports);
  AddSeconds(
      *run, "--grace", [flags](Duration grace) { flags->launch.grace = grace; },
      "Time from SIGTERM to SIGKILL for ranks that do not end (default 5)");
  run->add_flag("--keep-going", flags->launch.keep_going,
                "Do not end the other ranks when one fails: they can continue without it (Communicator::Rebuild)");
  AddNumber(
      *run, "--restarts", [flags](std::int64_t n) { flags->launch.restarts = static_cast<int>(n); }, 0, 1'000'000,
      "Restart failed ranks, at most N times in all, as joiners of the running job; implies --keep-going");
  run->add_option("command", flags->launch.command, "The command and its arguments")->required()->type_name("CMD");
  run->callback([flags, &exit_code] {
    flags->launch.tag_output = !flags->no_tag;
    flags->launch.with_token = !flags->no_token;
    auto stdin_to = RanksOfStdin(flags->stdin_to, flags->launch.ranks);
    if (!stdin_to) throw CLI::ValidationError("--stdin", stdin_to.error().message());
    flags->launch.stdin_to = *std::move(stdin_to);
    if (!flags->hosts.empty()) {
      auto places = PlaceRanks(flags->hosts, flags->launch.ranks, OwnName());
      if (!places) throw CLI::ValidationError("--hosts", places.error().message());
      flags->launch.places = *std::move(places);
    }
    if (flags->launch.ssh.rondo.empty()) flags->launch.ssh.rondo = OwnPath();
    const SteadyClock clock;
    const Result<int> code = Launch(flags->launch, clock);
    if (!code) PrintError("rondo run: {}\n", code.error().ToString());
    exit_code = code.value_or(kExitFailed);
  });
}

void AddRunAgentCommand(CLI::App& app, int& exit_code) {
  CLI::App* agent = app.add_subcommand("run-agent", "What rondo run starts on other hosts");
  agent->group("");  // hides the subcommand from the help, because no user calls it
  agent->callback([&exit_code] {
    const SteadyClock clock;
    exit_code = RunAgent(ProcessEnvironment, clock);
  });
}

}  // namespace rondo
