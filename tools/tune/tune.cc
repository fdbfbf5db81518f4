// rondo tune: measures every algorithm on this host and writes a profile, or judges the library's choices.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/version.h"
#include "collectives/algorithms/table.h"
#include "collectives/connect.h"
#include "collectives/cpu_list.h"
#include "collectives/model/fit.h"
#include "collectives/model/selector.h"
#include "rendezvous/membership.h"
#include "rendezvous/url/init_method.h"
#include "tools/common/comma_list.h"
#include "tools/common/commands.h"
#include "tools/common/flags.h"
#include "tools/common/integrity_flags.h"
#include "tools/common/interrupt.h"
#include "tools/common/output.h"
#include "tools/common/profile_flag.h"
#include "tools/common/sizes.h"
#include "tools/perf/report.h"
#include "tools/run/launch.h"
#include "tools/tune/sweep.h"

namespace rondo {
namespace {

struct TuneFlags {
  SweepOptions sweep;
  int rounds = 5;
  std::vector<int> worlds;  // in rising order
  bool here = false;        // -N was given, so ranks are started on this host, even if a launcher started this process
  bool check = false;
  std::string out;
  std::string name;
  std::shared_ptr<const Profile> profile;
  IntegrityFlags integrity;
  Duration timeout = std::chrono::seconds(60);
  std::vector<std::string> command_line;  // of this process
  bool launched = false;                  // this process is one of the ranks that -N started
};

// The timeout of ranks that wait until a smaller world has been measured.
constexpr Duration kWhileOthersMeasure = std::chrono::hours(12);

std::string Today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

// Returns for example
//   "all_reduce   4 ranks    64 KiB: auto ring 31.2 us, best tree 30.1 us, ratio 1.037, noise 1.020"
std::string RowText(const SweepRow& row, int ranks, bool with_choice) {
  const SweepRow::Way& best = row.Best();
  std::string text = fmt::format("{:>14} {:>3} ranks {:>9}: ", Name(row.collective), ranks, FormatSize(row.bytes));
  if (!with_choice) return text + fmt::format("{} {:.4g} us", Name(best.algorithm), best.Us());
  text += fmt::format("auto {} {:.4g} us, best {} {:.4g} us, ratio {:.3f}, noise {:.3f}", Name(row.chosen),
                      row.ChosenUs(), Name(best.algorithm), best.Us(), row.ChosenUs() / best.Us(), row.Noise());
  return text + (row.Missed() ? "  MISSED" : "");
}

// The results of one world (a set of ranks 0 to N - 1) on this rank. Rank 0 belongs to every world.
struct TunedWorld {
  Topology topology;
  std::vector<SweepRow> rows;
};

// Runs one round in one world.
Status MeasureRanks(const TuneFlags& flags, Communicator& communicator, int round, const Clock& clock,
                    InterruptWatch& interrupts, TunedWorld& world) {
  if (communicator.rank() == 0)
    PrintError("# round {} of {}: {} ranks\n", round + 1, flags.rounds, communicator.world_size());
  interrupts.OnInterrupt([&](int) { communicator.Abort("interrupted"); });
  Status swept = SweepOnce(communicator, clock, flags.sweep, world.rows);
  interrupts.OnInterrupt(nullptr);
  world.topology = communicator.topology();
  return swept;
}

// The connect options of all ranks. Profiles are for TCP, even within a host, because if ranks share memory, the
// library has no algorithm to choose.
ConnectOptions ConnectOptionsOf(const TuneFlags& flags) {
  ConnectOptions options;
  options.rendezvous = "env://";
  options.environment = ProcessEnvironment;
  options.path = Path::kTcp;
  options.timeout = flags.timeout;
  options.communicator.profile = flags.profile;
  flags.integrity.ApplyTo(options.communicator);
  return options;
}

// Makes a communicator for one world, with a generation of its own, and runs one round on it. During that time the
// other ranks sleep in the next rendezvous.
Status ConnectAndMeasure(const TuneFlags& flags, Rank rank, int ranks, int round, std::uint64_t generation,
                         const Clock& clock, InterruptWatch& interrupts, TunedWorld& world) {
  ConnectOptions options = ConnectOptionsOf(flags);
  options.rank = rank;
  options.world_size = ranks;
  options.generation = generation;
  RONDO_ASSIGN(const std::unique_ptr<Communicator> communicator, Connect(options));
  RONDO_TRY(MeasureRanks(flags, *communicator, round, clock, interrupts, world));
  return communicator->Close();
}

// A rendezvous of all ranks, so that no rank begins the next world while another rank is still measuring.
Status AwaitOtherRanks(const TuneFlags& flags, Rank rank, std::uint64_t generation) {
  ConnectOptions options = ConnectOptionsOf(flags);
  options.rank = rank;
  options.world_size = flags.worlds.back();
  options.generation = generation;
  options.timeout = kWhileOthersMeasure;
  options.communicator.progress_thread = false;
  RONDO_ASSIGN(const std::unique_ptr<Communicator> communicator, Connect(options));
  return communicator->Close();
}

// Whether the output file is replaced by renaming. A device or a pipe is written to directly, because renaming would
// replace it by a file.
bool IsReplaced(const TuneFlags& flags) {
  std::error_code none;
  return !std::filesystem::exists(flags.out, none) || std::filesystem::is_regular_file(flags.out, none);
}
std::string NameWhileWriting(const TuneFlags& flags) { return IsReplaced(flags) ? flags.out + ".new" : flags.out; }

// Checks that the profile can be written, before anything is measured.
Status CheckWritable(const TuneFlags& flags) {
  const bool can_write = static_cast<bool>(std::ofstream(NameWhileWriting(flags), std::ios::app));
  std::error_code ignored;
  if (IsReplaced(flags)) std::filesystem::remove(NameWhileWriting(flags), ignored);
  if (can_write) return {};
  return Fail(ErrorCode::kInvalidArgument, "--out: {} cannot be written", NameWhileWriting(flags));
}

// Writes the profile. It contains the measured worlds, and those worlds of --profile that were not measured.
Status WriteProfile(const TuneFlags& flags, const std::vector<TunedWorld>& worlds) {
  const int cores = CountCpus({UsableCpus()});
  const int hosts = worlds.front().topology.even_hosts();
  const std::string where = hosts == 1 ? "loopback" : fmt::format("{} hosts", hosts);
  const HostFacts host = ThisHost();
  Profile profile;
  std::size_t sizes = 0;
  for (const TunedWorld& world : worlds) {
    std::vector<MeasuredWorld> measured = ToMeasured(world.rows, world.topology);
    std::move(measured.begin(), measured.end(), std::back_inserter(profile.measured));
    sizes += world.rows.size();
  }
  if (flags.profile != nullptr) {
    for (const MeasuredWorld& old : flags.profile->measured)
      if (profile.Find(old.collective, old.world_size, old.hosts, old.oversubscribed) == nullptr)
        profile.measured.push_back(old);
  }
  profile.name = flags.name.empty() ? fmt::format("TCP {}, {} cores, {}", where, cores, host.cpu) : flags.name;
  const std::shared_ptr<const Profile> before = flags.profile != nullptr ? flags.profile : DefaultProfile();
  const Fit fit = FitCosts(before->costs, profile.measured, cores);
  profile.costs = fit.costs;
  MachineCosts& costs = profile.costs;
  for (double* const constant : {&costs.hop_us, &costs.oversubscribed_latency_us, &costs.remote_hop_us,
                                 &costs.message_us, &costs.byte_ns, &costs.reduce_byte_ns, &costs.wire_gbit_per_s})
    *constant = std::stod(fmt::format("{:.4g}", *constant));
  profile.provenance = {
      {"measured by", fmt::format("rondo tune {}", kRondoVersion)},
      {"date", Today()},
      {"cpu", host.cpu},
      {"cores", std::to_string(cores)},
      {"kernel", host.kernel},
      {"transport", "tcp, " + where},
      {"rounds", std::to_string(flags.rounds)},
      {"error of the model", fmt::format("typically a factor of {:.2f} from the times below", fit.typical_error)}};
  const auto on_one_host = [](const MeasuredWorld& world) { return world.hosts == 1; };
  if (std::all_of(profile.measured.begin(), profile.measured.end(), on_one_host))
    profile.provenance.emplace_back("remote_hop_us, wire_gbit_per_s", "not measured: those that it began from");
  if (flags.profile != nullptr) profile.provenance.emplace_back("began from", Fingerprint(*flags.profile));
  // Writes to another name first, so that a profile in use stays intact until the new one is complete.
  std::ofstream file(NameWhileWriting(flags), std::ios::trunc);
  file << Print(profile);
  file.close();
  std::error_code failed;
  if (file && IsReplaced(flags)) std::filesystem::rename(NameWhileWriting(flags), flags.out, failed);
  if (!file || failed) return Fail(ErrorCode::kResource, "--out: {} cannot be written", flags.out);
  fmt::print("# {}: {} sizes in {} worlds; the model is typically a factor of {:.2f} from the times\n", flags.out,
             sizes, worlds.size(), fit.typical_error);
  return {};
}

// Reports the results on rank 0, and writes the profile unless --check was given.
int Conclude(const TuneFlags& flags, const std::vector<TunedWorld>& worlds) {
  int rows = 0, missed = 0;
  for (const TunedWorld& world : worlds) {
    for (const SweepRow& row : world.rows) {
      fmt::print("{}\n", RowText(row, world.topology.world_size(), flags.check));
      ++rows;
      missed += flags.check && row.Missed() ? 1 : 0;
    }
  }
  if (!flags.check) {
    const Status written = WriteProfile(flags, worlds);
    return written ? kExitDone : Complain("tune", written.error().message(), kExitFailed);
  }
  fmt::print("# {} sizes, {} at which the choice takes more than 10% longer than the best algorithm, beyond noise\n",
             rows, missed);
  return missed == 0 ? kExitDone : kExitFailed;
}

// Runs as one rank of a launcher's job: one world, on one or more hosts.
int TuneTheJob(const TuneFlags& flags) {
  const SteadyClock clock;
  const auto watch = InterruptWatch::Start();
  if (!watch) return Complain("tune", watch.error().ToString(), kExitFailed);
  InterruptWatch& interrupts = **watch;
  const auto connected = Connect(ConnectOptionsOf(flags));
  if (!connected) return Complain("tune", connected.error().ToString(), kExitFailed);
  Communicator& communicator = **connected;
  const bool speaks = communicator.rank() == 0;
  if (communicator.world_size() < 2)
    return Complain("tune", "the launcher's job has one rank; start two or more, or give -N RANKS to start them here",
                    kExitWrongUsage);
  if (!flags.check && communicator.topology().even_hosts() == 0) {
    if (speaks)
      Complain("tune", "--out: every host must have the same number of ranks, with consecutive numbers",
               kExitWrongUsage);
    return communicator.Close() ? kExitWrongUsage : kExitFailed;
  }
  Status done = speaks && !flags.check ? CheckWritable(flags) : Status();
  if (!done) {
    communicator.Abort(done.error().message());
    return Complain("tune", done.error().message(), kExitWrongUsage);
  }
  std::vector<TunedWorld> worlds(1);
  for (int round = 0; done && round < flags.rounds; ++round)
    done = MeasureRanks(flags, communicator, round, clock, interrupts, worlds[0]);
  if (done) done = communicator.Close();
  if (!done) {
    Complain("tune", fmt::format("rank {}: {}", communicator.rank(), done.error().ToString()), kExitFailed);
    return interrupts.signal() != 0 ? 128 + interrupts.signal() : kExitFailed;
  }
  return speaks ? Conclude(flags, worlds) : kExitDone;
}

int TuneAsRank(const TuneFlags& flags) {
  const auto text = ProcessEnvironment("RANK").value_or("");
  Rank rank = 0;
  std::from_chars(text.data(), text.data() + text.size(), rank);
  const SteadyClock clock;
  const auto watch = InterruptWatch::Start();
  if (!watch) return Complain("tune", watch.error().ToString(), kExitFailed);
  InterruptWatch& interrupts = **watch;
  std::vector<TunedWorld> worlds(flags.worlds.size());
  const auto report = [&](const Error& error) {
    Complain("tune", fmt::format("rank {}: {}", rank, error.ToString()), kExitFailed);
    return interrupts.signal() != 0 ? 128 + interrupts.signal() : kExitFailed;
  };
  std::uint64_t generation = 0;
  for (int round = 0; round < flags.rounds; ++round) {
    for (std::size_t i = 0; i < worlds.size(); ++i) {
      const std::uint64_t here = generation++, again = generation++;
      const int ranks = flags.worlds[i];
      if (rank < ranks) {
        const Status measured = ConnectAndMeasure(flags, rank, ranks, round, here, clock, interrupts, worlds[i]);
        if (!measured) return report(measured.error());
      }
      if (const Status met = AwaitOtherRanks(flags, rank, again); !met) return report(met.error());
    }
  }
  return rank == 0 ? Conclude(flags, worlds) : kExitDone;
}

int Tune(TuneFlags& flags) {
  if (flags.check == !flags.out.empty())
    return Complain("tune", "expected either --out FILE or --check", kExitWrongUsage);
  if (flags.check) {
    if (const Status profile = TakeProfileOfEnvironment(flags.profile); !profile)
      return Complain("tune", profile.error().message(), kExitWrongUsage);
  }
  if (flags.sweep.min_bytes > flags.sweep.max_bytes)
    return Complain(
        "tune",
        fmt::format("--min-bytes: {} is more than --max-bytes {}", flags.sweep.min_bytes, flags.sweep.max_bytes),
        kExitWrongUsage);
  flags.sweep.with_choice = flags.check;
  if (flags.launched) return TuneAsRank(flags);
  if (!flags.here && ParseInitMethod("env://", ProcessEnvironment)) return TuneTheJob(flags);
  if (!flags.check) {
    if (const Status writable = CheckWritable(flags); !writable)
      return Complain("tune", writable.error().message(), kExitWrongUsage);
  }
  LaunchOptions launch;
  launch.ranks = flags.worlds.back();
  launch.command = CommandOfARank(flags.command_line);
  launch.program = "rondo tune";
  launch.tag_output = false;
  launch.explained_exit_code = kExitFailed;
  const SteadyClock clock;
  const Result<int> code = Launch(launch, clock);
  return code ? *code : Complain("tune", code.error().ToString(), kExitFailed);
}

std::string TakeWorlds(const std::string& text, std::vector<int>& worlds) {
  worlds.clear();
  for (const std::string& item : SplitAtCommas(text)) {
    int ranks = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), ranks);
    if (error != std::errc() || end != item.data() + item.size() || ranks < 2 || ranks > kMaxWorldSize)
      return fmt::format("expected numbers of ranks within 2..{}, such as 2,4,8, got '{}'", kMaxWorldSize, item);
    worlds.push_back(ranks);
  }
  std::sort(worlds.begin(), worlds.end());
  worlds.erase(std::unique(worlds.begin(), worlds.end()), worlds.end());
  return "";
}

std::string TakeCollectives(const std::string& text, std::vector<Collective>& collectives) {
  collectives.clear();
  if (text == "all") {
    collectives = DistinctCollectives();
    return "";
  }
  for (const std::string& name : SplitAtCommas(text)) {
    const auto collective = ParseCollective(name);
    if (!collective) return fmt::format("expected all or some of {}, got '{}'", NamesOf(DistinctCollectives()), name);
    if (std::find(collectives.begin(), collectives.end(), *collective) == collectives.end())
      collectives.push_back(*collective);
  }
  return "";
}

}  // namespace

void AddTuneCommand(CLI::App& app, const std::vector<std::string>& command_line, int& exit_code) {
  auto flags = std::make_shared<TuneFlags>();
  flags->command_line = command_line;
  flags->worlds = {2, 3, 4, 8};
  flags->sweep.collectives = DistinctCollectives();
  CLI::App* tune =
      app.add_subcommand("tune", "Measure every algorithm here, and write the profile by which algorithms are chosen");
  tune->footer(
      "Ranks are processes of this host that use TCP; under a launcher, without -N, they are those of its job, on any\n"
      "number of hosts. --out writes the measured times, the constants of the cost model fitted to them, and what\n"
      "--profile has for other worlds; give the file to every rank by --profile or RONDO_PROFILE. --check measures "
      "the\n"
      "library's choice beside every algorithm instead and exits with 1 if it takes more than 10% longer than the\n"
      "best, in four of five rounds and apart from noise. Run nothing else meanwhile.\n"
      "Examples: rondo tune --out node.json && rondo tune --check --profile node.json\n"
      "          mpirun -n 4 --map-by node rondo tune --profile node.json --out cluster.json");
  AddText(
      *tune, "-N,--ranks",
      [flags](const std::string& text) {
        flags->here = true;
        return TakeWorlds(text, flags->worlds);
      },
      "RANKS[,...]", "Numbers of ranks to measure with, on this host (default 2,3,4,8)");
  AddText(
      *tune, "--collectives",
      [flags](const std::string& text) { return TakeCollectives(text, flags->sweep.collectives); }, "NAME[,...]",
      "What to measure (default all): " + NamesOf(DistinctCollectives()));
  AddSize(
      *tune, "-b,--min-bytes", [flags](std::uint64_t b) { flags->sweep.min_bytes = b; },
      "Smallest size of a rank's largest buffer (default 4); after 0 comes one element, or one for each rank");
  AddSize(
      *tune, "-e,--max-bytes", [flags](std::uint64_t b) { flags->sweep.max_bytes = b; }, "Largest size (default 16M)");
  AddNumber(
      *tune, "-f,--step-factor", [flags](std::int64_t f) { flags->sweep.step_factor = static_cast<std::uint64_t>(f); },
      2, 1 << 30, "Multiply each size by this for the next one (default 4)");
  AddNumber(
      *tune, "--rounds", [flags](std::int64_t n) { flags->rounds = static_cast<int>(n); }, 1, 1000,
      "Number of rounds, each of which measures everything; algorithms that take six times as long as the best are "
      "measured only twice (default 5)");
  AddNumber(
      *tune, "--time-ms", [flags](std::int64_t ms) { flags->sweep.time_per_round = std::chrono::milliseconds(ms); }, 1,
      60'000, "Milliseconds per algorithm, size and round (default 8)");
  tune->add_option("--out", flags->out, "Write the profile")->type_name("FILE");
  tune->add_option("--name", flags->name, "Name of the profile (default: made of transport, cores and CPU)");
  tune->add_flag("--check", flags->check,
                 "Compare the algorithms that the library chooses (by --profile, RONDO_PROFILE or the default profile) "
                 "with the best ones");
  AddProfile(*tune, flags->profile);
  AddIntegrity(*tune, flags->integrity);
  AddSeconds(
      *tune, "--timeout", [flags](Duration timeout) { flags->timeout = timeout; },
      "Limit for the rendezvous, and for each operation (default 60)");
  tune->add_flag("--launched", flags->launched)->group("");  // set by the launcher for its ranks, see CommandOfARank
  tune->callback([flags, &exit_code] { exit_code = Tune(*flags); });
}

}  // namespace rondo
