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
    if (equals == 0) return fmt::format("wants NAME=VALUE, not '{}'", text);
    exported.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    return "";
  }
  for (const std::string& name : SplitAtCommas(text)) {
    const auto value = ProcessEnvironment(name);
    if (!value) return fmt::format("there is no variable '{}' here", name);
    exported.emplace_back(name, *value);
  }
  return "";
}

std::string TakeSsh(const std::string& text, std::vector<std::string>& command) {
  std::istringstream words(text);
  command.assign(std::istream_iterator<std::string>(words), {});
  return command.empty() ? "wants a command" : "";
}

// Parses the value of --stdin to the ranks that it names.
Result<std::vector<Rank>> RanksOfStdin(const std::string& text, int ranks) {
  std::vector<Rank> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  if (text == "all") return all;
  if (text == "none") return std::vector<Rank>{};
  Rank rank = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size() || rank < 0 || rank >= ranks)
    return Fail(ErrorCode::kInvalidArgument, "wants none, all or a rank from 0 to {}, not '{}'", ranks - 1, text);
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
  AddText(
      run, "--hosts", take_hosts, "HOST[:RANKS],...",
      "Where, by ssh: a,b:4,user@c,[fe80::1]:2. Ranks follow each other host by host; a host takes at most its RANKS, "
      "those without share what is left evenly. localhost is this host, without ssh (default: localhost)");
  AddText(
      run, "--ssh", [flags](const std::string& text) { return TakeSsh(text, flags->launch.ssh.command); }, "COMMAND",
      "OpenSSH's ssh and options for it, parted by blanks: \"ssh -p 2222 -i key\" (default: ssh)");
  run.add_option("--remote-rondo", flags->launch.ssh.rondo,
                 "This program on the other hosts, of the same version (default: the path that it has here)")
      ->type_name("PATH");
  run.add_option("--master-address", flags->launch.master_address,
                 "By which address ranks on several hosts find the store, which is here (default: as ssh came to each)")
      ->type_name("ADDRESS");
  AddText(
      run, "--export", [flags](const std::string& text) { return Export(text, flags->launch.exported); },
      "NAME,...|NAME=VALUE",
      "Variables for all ranks, any number of times; those named RONDO_... go to other hosts without it")
      ->take_last();  // the function above has taken every occurrence
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
  CLI::App* run = app.add_subcommand("run", "Start the ranks of a job, here or on several hosts, and see them through");
  run->footer(
      "Every rank finds in its environment:\n"
      "  RANK, WORLD_SIZE              which rank it is, of how many\n"
      "  LOCAL_RANK, LOCAL_WORLD_SIZE  the same among those on its host\n"
      "  RONDO_STORE                   where rondo run serves the store in which they meet, HOST:PORT\n"
      "  MASTER_ADDR, MASTER_PORT      rank 0's host and a port there that is theirs: for a store of their framework, "
      "as\n"
      "                                torch's env:// serves one\n"
      "  RONDO_LAUNCHER                rondo run\n"
      "  RONDO_EXTERNAL_STORE          1: no rank is to serve it\n"
      "  RONDO_JOB                     an id new in every launch\n"
      "  RONDO_TOKEN                   a secret new in every launch, or ours: who does not know it cannot join the "
      "job\n"
      "                                or use its store (docs/SECURITY.md)\n"
      "  RONDO_TLS                     the word of --tls; the key for psk comes from RONDO_TOKEN unless RONDO_TLS_PSK\n"
      "                                says one, and with --no-token RONDO_TLS_PSK is new in every launch\n"
      "  RONDO_PORTS                   the range of --ports, where that is given\n"
      "  RONDO_TIMEOUT                 the seconds of --timeout, where that is given\n"
      "  RONDO_JOIN, RONDO_RESTART     of a rank that was started again: 1, and the how manyth restart it is\n"
      "What a launcher around it said of rondo run itself (its rank under mpirun, srun, torchrun) they do not find.\n"
      "The first rank that fails ends the others, and its exit code is ours. With --keep-going it does not: programs\n"
      "that rebuild their communicator go on, and the exit code is 0 if any rank ends with 0.\n"
      "Standard input is that of rank 0, as under mpirun; --stdin none|all|RANK says otherwise.\n"
      "SIGUSR1 and SIGUSR2 are passed on to all ranks; SIGINT, SIGQUIT, SIGTERM and SIGHUP too, and end the job.\n"
      "SIGTSTP (Ctrl-Z) stops the job as a whole, and SIGCONT has it go on.\n"
      "On other hosts (--hosts) ranks run in the same working directory, in the environment that ssh gives them, and\n"
      "besides with the variables above, ours named RONDO_..., and those of --export. Secrets go there inside ssh, "
      "never\n"
      "on a command line. Every host must have answered within --timeout (default 60) before any rank starts. What\n"
      "happens to one rank, to a host or to rondo run itself, ranks end on all hosts.\n"
      "Foreign clients at the store's port are dropped; how many came is said at the end.\n"
      "Examples: rondo run -N 4 -- ./train --epochs 3\n"
      "          rondo run -N 16 --hosts a:8,b:8 --export PATH,PYTHONPATH -- python3 train.py");
  AddNumber(
      *run, "-N,--ranks", [flags](std::int64_t n) { flags->launch.ranks = static_cast<int>(n); }, 1, kMaxWorldSize,
      "How many")
      ->required();
  AddHostFlags(*run, flags);
  run->add_option("--stdin", flags->stdin_to,
                  "Which ranks read the standard input of rondo run, on whatever hosts: none, all (each all of it) or "
                  "one RANK; the others have an empty one (default: 0)")
      ->type_name("none|all|RANK");
  run->add_flag("--no-tag", flags->no_tag,
                "Leave the ranks' output alone instead of putting \"[rank] \" before every line");
  run->add_flag("--no-token", flags->no_token, "Start the job without a token, even if RONDO_TOKEN is set");
  AddSeconds(
      *run, "--timeout", [flags](Duration timeout) { flags->launch.timeout = timeout; },
      "For all hosts to answer, for the ranks to meet, and for each operation, as RONDO_TIMEOUT (default: theirs; "
      "rondo perf has 60)");
  AddTls(*run, flags->launch.tls);
  AddPorts(*run, flags->launch.ports);
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
  agent->group("");  // hides it from the help: no user calls it
  agent->callback([&exit_code] {
    const SteadyClock clock;
    exit_code = RunAgent(ProcessEnvironment, clock);
  });
}

}  // namespace rondo
