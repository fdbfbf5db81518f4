// rondo perf: measures and checks collectives.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collectives/algorithms/table.h"
#include "collectives/connect.h"
#include "collectives/cpu_list.h"
#include "rendezvous/init_method.h"
#include "rendezvous/membership.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/integrity_flags.h"
#include "tools/interrupt.h"
#include "tools/launch.h"
#include "tools/perf_case.h"
#include "tools/perf_matrix.h"
#include "tools/perf_outputs.h"
#include "tools/perf_session.h"
#include "tools/profile_flag.h"
#include "transport/board.h"
#include "transport/ib/ib.h"
#include "transport/inproc/inproc.h"
#include "transport/rail.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

struct Flags {
  PerfOptions measure;
  PerfOutputs outputs;
  std::optional<int> local_ranks;
  bool launched = false;  // this process is one of the ranks that -N started
  std::string transport = "auto";
  std::string rendezvous;
  std::optional<Rank> rank;
  std::optional<int> world_size;
  std::vector<std::string> addresses;
  std::vector<std::string> rank_addresses;  // one local rank each
  std::string interface;
  std::vector<std::string> rdma_ports;
  std::optional<TlsMode> tls;
  std::optional<Duration> given_timeout;
  Duration timeout = std::chrono::seconds(60);  // that holds; see TakeTimeout
  std::shared_ptr<const Profile> profile;
  IntegrityFlags integrity;
  bool in_place = false;
  bool out_of_place = false;
  bool matrix = false;
  std::string unfit_for_matrix;  // a flag that was given and says nothing of pairs; "": none
  MatrixOptions of_matrix;
};

// "all", or names separated by commas, into `wanted`; "" or what is wrong. `nouns` says what is wanted.
template <typename T, typename Parse>
std::string TakeNames(const std::string& text, const std::vector<T>& every, Parse parse, const std::string& nouns,
                      Wanted<T>& wanted) {
  wanted = {};
  if (text == "all") {
    wanted = {every, true};
    return "";
  }
  for (const std::string& name : SplitAtCommas(text)) {
    const auto value = parse(name);
    if (!value) return fmt::format("wants {} or all, not '{}'", nouns, name);
    wanted.values.push_back(*value);
  }
  return "";
}

// Collectives, and what is none but is measured like one.
std::string TakeSubjects(const std::string& text, PerfOptions& measure) {
  const std::vector<Collective> every = DistinctCollectives();
  const std::string names = NamesOf(every) + ", send_recv";
  measure.send_recv = text == "all";
  std::string collectives;
  for (const std::string& name : SplitAtCommas(text)) {
    if (name == "send_recv") {
      measure.send_recv = true;
    } else {
      collectives += (collectives.empty() ? "" : ",") + name;
    }
  }
  measure.collectives = {};
  if (collectives.empty() && measure.send_recv) return "";
  return TakeNames(collectives, every, ParseCollective, "one of " + names, measure.collectives);
}

// ---- the ways to have ranks ----

int Complain(const std::string& text, int exit_code) {
  fmt::print(stderr, "rondo perf: {}\n", text);
  return exit_code;
}

bool SharesMemory(const Flags& flags) { return flags.transport == "auto" || flags.transport == "shm"; }

// What the flight recorder holds, for --record-dir. A result is none the worse for it when that fails.
void LeaveRecords(const Communicator& communicator, const char* reason, bool say_where) {
  const Result<std::string> written = communicator.WriteRecords(reason);
  if (!written)
    fmt::print(stderr, "rondo perf: rank {}: --record-dir: {}\n", communicator.rank(), written.error().message());
  else if (say_where)
    fmt::print(stderr, "rondo perf: rank {}: records in {}\n", communicator.rank(), *written);
}

void AnswerReport(const Communicator& communicator, const Flags& flags) {
  if (!flags.outputs.record_dir.empty()) return LeaveRecords(communicator, "signal", /*say_where=*/true);
  fmt::print(stderr, "rondo perf: rank {}: SIGUSR1: there is no --record-dir to leave records in\n",
             communicator.rank());
}

Status CheckMatrixFiles(const Flags& flags) {
  RONDO_TRY(CheckFiles(flags.outputs));
  return CheckMatrixBaseline(flags.outputs, flags.of_matrix);
}

// Everything that one rank does once it has a communicator.
int MeasureOnRank(Communicator& communicator, const Clock& clock, const Flags& flags) {
  const auto report = [&](const Error& error, int exit_code) {
    return Complain(fmt::format("rank {}: {}", communicator.rank(), error.ToString()), exit_code);
  };
  // Usage that only rank 0 finds wrong: the others are told what it is.
  const auto refuse = [&](const Error& error) {
    communicator.Abort(error.message());
    return Complain(error.message(), kExitWrongUsage);
  };
  // Of a measurement that came to no verdict. A baseline that has nothing to compare was the wrong one.
  const auto report_measuring = [&](const Error& error) {
    return report(error, error.code() == ErrorCode::kInvalidArgument ? kExitWrongUsage : kExitFailed);
  };
  // What has failed has left its records itself.
  const auto leave_records = [&] {
    if (!flags.outputs.record_dir.empty() && !communicator.failure())
      LeaveRecords(communicator, "end", /*say_where=*/false);
  };
  if (flags.matrix) {
    if (const Status files = communicator.rank() == 0 ? CheckMatrixFiles(flags) : Status{}; !files)
      return refuse(files.error());
    const auto good = MeasureMatrix(communicator, clock, flags.of_matrix, flags.outputs);
    leave_records();
    if (!good) return report_measuring(good.error());
    if (const Status closed = communicator.Close(); !closed) return report(closed.error(), kExitFailed);
    return *good ? kExitDone : kExitFailed;
  }
  PerfOptions measure = flags.measure;
  measure.board =
      SharesMemory(flags) && communicator.place().host_count() == 1 && communicator.world_size() <= kMaxBoardRanks;
  const auto cases = PlanCases(measure, communicator.world_size());
  if (!cases) return Complain(cases.error().message(), kExitWrongUsage);
  if (communicator.rank() == 0) {
    if (const Status files = CheckFiles(flags.outputs); !files) return refuse(files.error());
  }
  const auto verdict = MeasureAll(communicator, clock, measure, *cases, flags.outputs);
  leave_records();
  if (!verdict) return report_measuring(verdict.error());
  if (const Status closed = communicator.Close(); !closed) return report(closed.error(), kExitFailed);
  return verdict->good() ? kExitDone : kExitFailed;
}

// What the peers of an interrupted rank are told.
std::string ReasonOf(int signal) { return signal == SIGINT ? "interrupted" : "asked to end by SIGTERM"; }

int AsExitCode(const InterruptWatch& interrupts, int exit_code) {
  return interrupts.signal() != 0 ? 128 + interrupts.signal() : exit_code;
}

// All ranks as threads of this process.
int MeasureInProcess(const Flags& flags) {
  InterruptWatch interrupts;
  const int ranks = *flags.local_ranks;
  const InprocNetwork network(ranks);
  const auto clock = std::make_shared<SteadyClock>();
  const int cores = CountCpus({UsableCpus()});
  std::vector<PeerIdentity> peers;
  for (Rank rank = 0; rank < ranks; ++rank) {
    peers.push_back({.host = "localhost",
                     .host_id = "in process",
                     .pid = 0,
                     .address = network.transport(rank)->Address(),
                     .cores = cores});
  }
  std::vector<int> exit_codes(static_cast<std::size_t>(ranks), kExitFailed);
  std::mutex mutex;  // guards which communicators there are
  std::vector<std::unique_ptr<Communicator>> communicators(static_cast<std::size_t>(ranks));
  interrupts.OnInterrupt([&](int signal) {
    const std::lock_guard lock(mutex);
    for (const auto& communicator : communicators)
      if (communicator) communicator->Abort(ReasonOf(signal));
  });
  interrupts.OnReport([&] {
    const std::lock_guard lock(mutex);
    for (const auto& communicator : communicators)
      if (communicator) AnswerReport(*communicator, flags);
  });
  std::vector<std::thread> threads;
  for (Rank rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      CommunicatorOptions options;
      options.rank = rank;
      options.peers = peers;
      options.transport = network.transport(rank);
      options.clock = clock;
      options.timeout = flags.timeout;
      options.profile = flags.profile;
      options.record_dir = flags.outputs.record_dir;
      options.rails = flags.measure.rails;
      flags.integrity.ApplyTo(options);
      auto created = Communicator::Create(std::move(options));
      if (!created) {
        Complain(fmt::format("rank {}: {}", rank, created.error().ToString()), kExitFailed);
        return;
      }
      Communicator& communicator = **created;
      {
        const std::lock_guard lock(mutex);
        communicators[static_cast<std::size_t>(rank)] = std::move(*created);
        if (interrupts.signal() != 0) communicator.Abort(ReasonOf(interrupts.signal()));  // it came before this one
      }
      exit_codes[static_cast<std::size_t>(rank)] = MeasureOnRank(communicator, *clock, flags);
    });
  }
  for (std::thread& thread : threads) thread.join();
  interrupts.OnInterrupt(nullptr);
  interrupts.OnReport(nullptr);
  return AsExitCode(interrupts, *std::max_element(exit_codes.begin(), exit_codes.end()));
}

Path PathOf(const std::string& transport) {
  return transport == "tcp"   ? Path::kTcp
         : transport == "shm" ? Path::kShm
         : transport == "ib"  ? Path::kIb
                              : Path::kAuto;
}

// Which of the ports asked for is this rank's: ranks of one host take them in turn.
std::string RdmaPortOf(const Flags& flags, const Result<InitMethod>& method) {
  if (flags.rdma_ports.empty()) return "";
  std::optional<int> turn = flags.rank;
  if (!turn && method) turn = method->launch && method->launch->local_rank ? method->launch->local_rank : method->rank;
  return flags.rdma_ports[static_cast<std::size_t>(turn.value_or(0)) % flags.rdma_ports.size()];
}

// This process is one rank of several.
int MeasureAsRank(Flags& flags) {
  const std::string url = flags.rendezvous.empty() ? "env://" : flags.rendezvous;
  const auto method = ParseInitMethod(url, ProcessEnvironment);
  if (!method && flags.rendezvous.empty()) {
    return Complain(
        "which ranks? Give -N RANKS to start them here, or start this under a launcher; " + method.error().ToString(),
        kExitWrongUsage);
  }
  if (method && !flags.launched) {  // -N says enough by having been asked for
    InitMethod described = *method;
    if (flags.rank) described.rank = flags.rank;
    if (flags.world_size) described.world_size = flags.world_size;
    flags.outputs.launch = described.Describe();
  }
  InterruptWatch interrupts;
  const SteadyClock clock;
  ConnectOptions options;
  options.rendezvous = url;
  options.rank = flags.rank;
  options.world_size = flags.world_size;
  options.environment = ProcessEnvironment;
  options.addresses = flags.addresses;
  if (!flags.rank_addresses.empty() && method && method->rank)
    options.addresses = {flags.rank_addresses.at(static_cast<std::size_t>(*method->rank))};
  options.interface = flags.interface;
  // Whoever launched us has put it into the environment, with the key.
  if (flags.tls && !flags.launched) options.tls = TlsOptions{.mode = *flags.tls};
  options.path = PathOf(flags.transport);
  options.rdma_port = RdmaPortOf(flags, method);
  options.timeout = flags.timeout;
  options.communicator.profile = flags.profile;
  options.communicator.record_dir = flags.outputs.record_dir;
  options.communicator.rails = flags.measure.rails;
  flags.integrity.ApplyTo(options.communicator);
  const auto communicator = Connect(options);
  if (!communicator) {
    const std::optional<Rank> rank = flags.rank ? flags.rank : method ? method->rank : std::nullopt;
    const bool usage = communicator.error().code() == ErrorCode::kInvalidArgument;
    return Complain((rank ? fmt::format("rank {}: ", *rank) : "") + communicator.error().ToString(),
                    usage ? kExitWrongUsage : kExitFailed);
  }
  interrupts.OnInterrupt([&](int signal) { (*communicator)->Abort(ReasonOf(signal)); });
  interrupts.OnReport([&] { AnswerReport(**communicator, flags); });
  const int exit_code = MeasureOnRank(**communicator, clock, flags);
  interrupts.OnInterrupt(nullptr);
  interrupts.OnReport(nullptr);
  return AsExitCode(interrupts, exit_code);
}

int MeasureOnLocalRanks(const Flags& flags) {
  LaunchOptions launch;
  launch.ranks = *flags.local_ranks;
  launch.command = CommandOfARank();
  launch.program = "rondo perf";
  launch.tls = flags.tls;
  launch.tag_output = false;  // rank 0 alone prints, and errors name their rank
  launch.explained_exit_code = kExitFailed;
  const SteadyClock clock;
  const Result<int> code = Launch(launch, clock);
  return code ? *code : Complain(code.error().ToString(), kExitFailed);
}

// That of the flag, else the one that a launcher left in the environment, else the default.
Status TakeTimeout(Flags& flags) {
  if (flags.given_timeout) {
    flags.timeout = *flags.given_timeout;
  } else if (const auto variable = ProcessEnvironment("RONDO_TIMEOUT"); variable && !variable->empty()) {
    const Result<Duration> timeout = ParseSeconds(*variable);
    if (!timeout) return Fail(ErrorCode::kInvalidArgument, "variable RONDO_TIMEOUT: {}", timeout.error().message());
    flags.timeout = *timeout;
  }
  return {};
}

// What says nothing of pairs is refused rather than ignored.
Status CheckMatrix(const Flags& flags) {
  if (!flags.measure.send_recv || !flags.measure.collectives.values.empty())
    return Fail(ErrorCode::kInvalidArgument, "--matrix: measures messages between pairs, so wants send_recv alone");
  if (flags.local_ranks.value_or(2) < 2) return Fail(ErrorCode::kInvalidArgument, "--matrix: wants two ranks at least");
  if (!flags.unfit_for_matrix.empty())
    return Fail(ErrorCode::kInvalidArgument,
                "{}: not with --matrix, which measures messages of plain bytes between pairs", flags.unfit_for_matrix);
  if (flags.of_matrix.pair.bandwidth_bytes == 0)
    return Fail(ErrorCode::kInvalidArgument, "--max-bytes: --matrix wants messages of at least one byte");
  return {};
}

MatrixOptions MatrixOptionsOf(const Flags& flags) {
  MatrixOptions options = flags.of_matrix;
  const PerfOptions& measure = flags.measure;
  options.pair.check = measure.check;
  if (measure.time_per_size) options.pair.time = *measure.time_per_size;
  if (measure.iterations) options.pair.iterations = static_cast<std::uint64_t>(*measure.iterations);
  if (measure.warmup) options.pair.warmup = static_cast<std::uint64_t>(*measure.warmup);
  options.checksums = flags.integrity.checksums;
  options.rails = measure.rails;
  return options;
}

// --ib-dev where it would be ignored. Where RDMA alone is asked for, each rank says what is wrong with its own.
Status CheckRdmaPorts(const Flags& flags) {
  if (flags.rdma_ports.empty() || flags.launched) return {};
  if (flags.transport == "tcp" || flags.transport == "shm")
    return Fail(ErrorCode::kInvalidArgument, "--ib-dev: --transport {} uses none; ib and auto do", flags.transport);
  if (flags.transport != "auto") return {};
  for (const std::string& port : flags.rdma_ports)
    if (const Status usable = CheckIbPort(port); !usable)
      return Fail(ErrorCode::kInvalidArgument, "--ib-dev: {}", usable.error().message());
  return {};
}

// --addresses: a local rank for each, told before any starts.
Status TakeRankAddresses(Flags& flags) {
  const std::vector<std::string>& addresses = flags.rank_addresses;
  if (addresses.empty()) return {};
  const auto refuse = [](const std::string& why) { return Fail(ErrorCode::kInvalidArgument, "--addresses: {}", why); };
  const int ranks = static_cast<int>(addresses.size());
  if (flags.local_ranks.value_or(ranks) != ranks)
    return refuse(fmt::format("{} of them, and --ranks {}: each rank has one", ranks, *flags.local_ranks));
  flags.local_ranks = ranks;
  if (flags.transport == "inproc" || flags.transport == "shm")
    return refuse(fmt::format("--transport {} uses none; tcp and ib do", flags.transport));
  // Who names addresses means the ways between them, not the memory that ranks of one host share.
  std::string without_port;  // beside others that have one
  if (flags.transport == "auto") {
    const bool encrypted = flags.tls || ProcessEnvironment("RONDO_TLS");
    std::vector<std::string> portless;
    std::copy_if(addresses.begin(), addresses.end(), std::back_inserter(portless),
                 [](const std::string& address) { return !CheckIbPort(address); });
    flags.transport = !encrypted && portless.empty() ? "ib" : "tcp";
    if (!encrypted && portless.size() < addresses.size()) without_port = fmt::format("{}", fmt::join(portless, ", "));
  }
  if (flags.launched) return {};
  for (const std::string& address : addresses) {
    if (std::count(addresses.begin(), addresses.end(), address) > 1)
      return refuse(address + " is there twice: each rank has its own");
    const Status local = CheckLocalAddresses({address});
    if (!local) return refuse(local.error().message());
    const Status port = flags.transport == "ib" ? CheckIbPort(address) : Status{};
    if (!port) return refuse(fmt::format("{}: {}", address, port.error().message()));
  }
  if (!without_port.empty())
    fmt::print(stderr, "rondo perf: --addresses: over tcp, since no active RDMA port has {}\n", without_port);
  return {};
}

int RunPerf(Flags& flags) {
  if (const Status addresses = TakeRankAddresses(flags); !addresses)
    return Complain(addresses.error().message(), kExitWrongUsage);
  if (const Status timeout = TakeTimeout(flags); !timeout) return Complain(timeout.error().message(), kExitWrongUsage);
  if (const Status profile = TakeProfileOfEnvironment(flags.profile); !profile)
    return Complain(profile.error().message(), kExitWrongUsage);
  flags.measure.checksums = flags.integrity.checksums;
  flags.measure.compare_results = flags.integrity.compare_results;
  flags.measure.in_place = flags.in_place || !flags.out_of_place;
  flags.measure.out_of_place = flags.out_of_place || !flags.in_place;
  const bool in_process = flags.transport == "inproc";
  if (flags.matrix) {
    if (const Status matrix = CheckMatrix(flags); !matrix) return Complain(matrix.error().message(), kExitWrongUsage);
    flags.of_matrix = MatrixOptionsOf(flags);
  }
  if (in_process && !flags.local_ranks) return Complain("--transport inproc: wants -N RANKS too", kExitWrongUsage);
  const char* unused = !flags.addresses.empty()    ? "--address"
                       : !flags.interface.empty()  ? "--interface"
                       : !flags.rdma_ports.empty() ? "--ib-dev"
                       : flags.tls                 ? "--tls"
                                                   : nullptr;
  if (in_process && unused != nullptr) {
    return Complain(fmt::format("{}: --transport inproc has no addresses and uses no network", unused),
                    kExitWrongUsage);
  }
  if ((flags.outputs.json == "-") + (flags.outputs.csv == "-") + (flags.outputs.html == "-") > 1) {
    return Complain("--json, --csv and --html: only one of them can have stdout", kExitWrongUsage);
  }
  if (const Status ports = CheckRdmaPorts(flags); !ports) return Complain(ports.error().message(), kExitWrongUsage);
  if (const Status folder = PrepareRecordDir(flags.outputs); !folder)
    return Complain(folder.error().message(), kExitWrongUsage);
  if (flags.local_ranks && !flags.launched) {  // usage errors once, before anything starts
    flags.measure.board = SharesMemory(flags) && *flags.local_ranks <= kMaxBoardRanks;
    if (!flags.matrix) {
      const auto cases = PlanCases(flags.measure, *flags.local_ranks);
      if (!cases) return Complain(cases.error().message(), kExitWrongUsage);
    }
    if (const Status files = flags.matrix ? CheckMatrixFiles(flags) : CheckFiles(flags.outputs); !files)
      return Complain(files.error().message(), kExitWrongUsage);
  }
  if (in_process) return MeasureInProcess(flags);
  return flags.local_ranks && !flags.launched ? MeasureOnLocalRanks(flags) : MeasureAsRank(flags);
}

// ---- the flags ----

void AddWhatToMeasure(CLI::App& perf, Flags& flags) {
  PerfOptions& measure = flags.measure;
  const std::string algorithms = "auto, " + NamesOf(DistinctAlgorithms()) + ", board (of ranks that share memory)";
  AddText(
      perf, "collective", [&measure](const std::string& text) { return TakeSubjects(text, measure); }, "COLLECTIVE",
      "What to measure: " + NamesOf(DistinctCollectives()) + ", send_recv (each rank to the next), all")
      ->required();
  AddSize(
      perf, "-b,--min-bytes",
      [&flags](std::uint64_t b) { flags.measure.min_bytes = flags.of_matrix.pair.latency_bytes = b; },
      "Smallest size in all of a rank's largest buffer, with K, M or G (default 8); after 0 comes one element, or one "
      "per rank");
  AddSize(
      perf, "-e,--max-bytes",
      [&flags](std::uint64_t b) { flags.measure.max_bytes = flags.of_matrix.pair.bandwidth_bytes = b; },
      "Largest size (default 64M)");
  CLI::Option* factor = AddNumber(
      perf, "-f,--step-factor", [&measure](std::int64_t f) { measure.step_factor = static_cast<std::uint64_t>(f); }, 2,
      1 << 30, "From one size to the next by multiplying (default 2)");
  AddSize(
      perf, "-i,--step-bytes", [&measure](std::uint64_t b) { measure.step_bytes = std::max<std::uint64_t>(b, 1); },
      "From one size to the next by adding")
      ->excludes(factor);
  CLI::Option* iterations = AddNumber(
      perf, "-n,--iters", [&measure](std::int64_t n) { measure.iterations = static_cast<int>(n); }, 1, 1'000'000,
      "Timed iterations per size (default: as many as fit into the time)");
  CLI::Option* time =
      AddNumber(
          perf, "--time-ms", [&measure](std::int64_t ms) { measure.time_per_size = std::chrono::milliseconds(ms); }, 1,
          86'400'000, "Time per size in milliseconds (default 200, less where many sizes are measured)")
          ->excludes(iterations);
  AddSeconds(
      perf, "--duration", [&measure](Duration duration) { measure.time_per_size = duration; },
      "The same as --time-ms in seconds, a fraction allowed; with --matrix of each measurement of a pair")
      ->excludes(iterations)
      ->excludes(time);
  AddNumber(
      perf, "-w,--warmup", [&measure](std::int64_t n) { measure.warmup = static_cast<int>(n); }, 0, 1'000'000,
      "Untimed iterations before (default 5, fewer where iterations are)");
  AddText(
      perf, "-d,--dtype",
      [&measure](const std::string& text) {
        return TakeNames(text, {kAllDataTypes.begin(), kAllDataTypes.end()}, ParseDataType, NamesOf(kAllDataTypes),
                         measure.types);
      },
      "TYPE[,...]", "Types of elements (default float32): " + NamesOf(kAllDataTypes) + ", all");
  AddText(
      perf, "-o,--op",
      [&measure](const std::string& text) {
        return TakeNames(text, {kAllReduceOps.begin(), kAllReduceOps.end()}, ParseReduceOp, NamesOf(kAllReduceOps),
                         measure.ops);
      },
      "OP[,...]", "Operations of reductions (default sum): " + NamesOf(kAllReduceOps) + ", all");
  AddText(
      perf, "-r,--root",
      [&measure](const std::string& text) {
        const auto parse = [](const std::string& name) -> std::optional<Rank> {
          Rank root = 0;
          const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), root);
          const bool whole = error == std::errc() && end == name.data() + name.size() && root >= 0;
          return whole ? std::optional(root) : std::nullopt;
        };
        return TakeNames<Rank>(text, {}, parse, "a rank", measure.roots);
      },
      "RANK|all", "Root of collectives that have one (default 0)");
  AddText(
      perf, "--algorithm",
      [&measure, algorithms](const std::string& text) {
        const auto parse = [](const std::string& name) -> std::optional<std::optional<Algorithm>> {
          const std::optional<Algorithm> algorithm = ParseAlgorithm(name);
          if (!algorithm && name != "auto") return std::nullopt;
          return std::optional<std::optional<Algorithm>>(std::in_place, algorithm);
        };
        return TakeNames<std::optional<Algorithm>>(text, {}, parse, algorithms, measure.algorithms);
      },
      "NAME[,...]", "Algorithms (default auto): " + algorithms + ", all");
  perf.add_flag("--in-place", flags.in_place, "Measure in place (default: both ways)");
  perf.add_flag("--out-of-place", flags.out_of_place, "Measure out of place");
  perf.add_flag("--uneven", measure.uneven, "A count of its own for every rank: all_gather_v, all_to_all_v and so on");
  perf.add_flag(
      "--allocate", measure.allocate,
      "Buffers from Communicator::Allocate, which ranks of a host read where they lie and RDMA sends without a copy "
      "(default: plain memory, but of send_recv alone)");
  perf.add_flag("--reproducible", measure.reproducible,
                "Reductions in reproducible mode (left fold in rank order) beside the free choice, and what it costs");
  perf.add_flag("--wide-partials", measure.wide_partials,
                "Reductions of 16-bit floats travel and combine in float32, and round once");
  AddIntegrity(perf, flags.integrity);
  AddProfile(perf, flags.profile);
  perf.add_flag(
      "--predicted", flags.outputs.predicted,
      "A last column with the time that the profile promises: measured when it was made, or by the cost model (~)");
  AddNumber(
      perf, "--check", [&measure](std::int64_t on) { measure.check = on != 0; }, 0, 1,
      "1: every element of every result is verified (default); 0: none");
}

// What says nothing of pairs of ranks, and is refused with --matrix.
constexpr std::array kUnfitForMatrix{"--step-factor", "--step-bytes",   "--dtype",         "--op",
                                     "--root",        "--algorithm",    "--in-place",      "--out-of-place",
                                     "--uneven",      "--reproducible", "--wide-partials", "--compare-results",
                                     "--profile",     "--predicted"};

void AddMatrix(CLI::App& perf, Flags& flags) {
  MatrixOptions& matrix = flags.of_matrix;
  CLI::Option* const asked = perf.add_flag(
      "--matrix", flags.matrix,
      "With send_recv: every pair of ranks by itself, latency and bandwidth each way and both ways at once; "
      "-b is the message of latency (default 8), -e that of bandwidth (default 1M), -n and -w count the messages "
      "(there "
      "and back, of latency) of each of the four measurements");
  AddNumber(
      perf, "--in-flight", [&matrix](std::int64_t n) { matrix.pair.in_flight = static_cast<int>(n); }, 1, 1024,
      "With --matrix: messages under way at once in each direction (default 8)")
      ->needs(asked);
  perf.add_flag("--report-gbits", matrix.gbits, "With --matrix: in Gbit/s instead of GB/s")->needs(asked);
  AddText(
      perf, "--min-gbps",
      [&matrix](const std::string& text) -> std::string {
        double gbps = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gbps);
        if (error != std::errc() || end != text.data() + text.size() || !(gbps > 0)) return "wants Gbit/s, such as 180";
        matrix.min_gbps = gbps;
        return "";
      },
      "GBPS", "With --matrix: exit code 1 if a direction of a pair does less, in Gbit/s")
      ->needs(asked);
}

void AddRanks(CLI::App& perf, Flags& flags) {
  CLI::Option* local = AddNumber(
      perf, "-N,--ranks", [&flags](std::int64_t n) { flags.local_ranks = static_cast<int>(n); }, 1, kMaxWorldSize,
      "Start that many ranks on this host; without it the ranks come from the environment or by hand");
  AddText(
      perf, "--rendezvous", [&flags](const std::string& url) { return flags.rendezvous = url, std::string(); }, "URL",
      "Where ranks meet: tcp://host:port, file:///path, env:// (default: what the launcher says)")
      ->excludes(local);
  AddNumber(
      perf, "--rank", [&flags](std::int64_t r) { flags.rank = static_cast<Rank>(r); }, 0, kMaxWorldSize - 1,
      "This process's rank")
      ->excludes(local);
  AddNumber(
      perf, "--world-size", [&flags](std::int64_t w) { flags.world_size = static_cast<int>(w); }, 1, kMaxWorldSize,
      "How many ranks there are")
      ->excludes(local);
  AddChoice(
      perf, "--transport", [&flags](const std::string& name) { flags.transport = name; },
      {"auto", "tcp", "shm", "ib", "inproc"},
      "How bytes travel. auto: memory between ranks of one host; to others RDMA where both have a port, else sockets; "
      "tcp: sockets alone; shm: as auto, but all ranks must be on one host; ib: RDMA alone; inproc: ranks are threads "
      "of one process");
  AddNumber(
      perf, "--rails,--qp", [&flags](std::int64_t n) { flags.measure.rails = static_cast<std::uint32_t>(n); }, 1,
      kMostRails,
      "Parallel connections to each peer, which carry a share each of a large collective (default 1); where there are "
      "several addresses or RDMA ports, they take these in turn; with --matrix each is measured by itself");
  CLI::Option* address = AddText(
      perf, "--address",
      [&flags](const std::string& list) { return flags.addresses = SplitAtCommas(list), std::string(); }, "ADDR[,ADDR]",
      "Local addresses to use (default: chosen, see rondo explain)");
  CLI::Option* interface = AddText(
      perf, "--interface", [&flags](const std::string& expr) { return flags.interface = expr, std::string(); }, "EXPR",
      "Local interfaces to use: eth0,ib0 or ^docker0,lo or =eth0 or 10.0.0.0/8");
  CLI::Option* ib_dev = AddText(
      perf, "--ib-dev",
      [&flags](const std::string& list) { return flags.rdma_ports = SplitAtCommas(list), std::string(); },
      "DEV[:PORT][+...][,...]",
      "RDMA device, port (mlx5_0:1) or its address; behind a + one that stands by until the first fails; of several, "
      "behind commas, each local rank takes one in turn (default: the fastest, the others stand by)");
  CLI::Option* each = AddText(
      perf, "--addresses",
      [&flags](const std::string& list) { return flags.rank_addresses = SplitAtCommas(list), std::string(); },
      "ADDR,ADDR[,...]",
      "Start one rank per local address and bind it to that: over RDMA where all are addresses of RDMA ports, else "
      "tcp");
  for (CLI::Option* other : {address, interface, ib_dev}) each->excludes(other);
  for (const char* other : {"--rendezvous", "--rank", "--world-size"}) each->excludes(perf.get_option(other));
  AddTls(perf, flags.tls);
  AddSeconds(
      perf, "--timeout", [&flags](Duration timeout) { flags.given_timeout = timeout; },
      "For the ranks to meet, and for each operation (default: variable RONDO_TIMEOUT, else 60)");
  perf.add_flag("--launched", flags.launched)->group("");  // ours, see CommandOfARank
}

void AddOutputs(CLI::App& perf, PerfOutputs& outputs) {
  perf.add_option("--json", outputs.json, "Write the rows as JSON; - is stdout")->type_name("FILE|-");
  perf.add_option("--csv", outputs.csv, "Write the rows as CSV; - is stdout")->type_name("FILE|-");
  perf.add_option("--html", outputs.html, "Write a page with charts")->type_name("FILE|-");
  perf.add_option("--record-dir", outputs.record_dir,
                  "Leave the last operations of every rank there for rondo trace: at the end, when the job fails, and "
                  "on SIGUSR1")
      ->type_name("DIR");
  CLI::Option* baseline =
      perf.add_option("--baseline", outputs.baseline, "Compare with what --json wrote earlier")->type_name("FILE");
  AddText(
      perf, "--max-regression",
      [&outputs](const std::string& text) -> std::string {
        double percent = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
        if (error != std::errc() || std::string_view(end) != "%" || percent < 0) {
          return fmt::format("wants a percentage such as 10%, not '{}'", text);
        }
        outputs.max_regression = percent / 100;
        return "";
      },
      "PERCENT%", "How much longer than the baseline a row may take (default 10%); exit code 1 beyond")
      ->needs(baseline);
}

}  // namespace

void AddPerfCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* perf = app.add_subcommand("perf", "Measure collectives, and check every element of their results");
  perf->footer(
      "Times are those of the slowest rank in each iteration: median and 99th percentile. algbw is bytes over time,\n"
      "busbw what the wires carried of it (factors as in nccl-tests). Exit code 1 if a value is wrong.\n"
      "Example: rondo perf all_reduce -N 4 -b 4 -e 64M -f 4 --algorithm all --html out.html\n"
      "         rondo perf send_recv --matrix --addresses 10.0.0.1,10.0.0.2,10.0.0.3 --min-gbps 90 --html pairs.html");
  AddWhatToMeasure(*perf, *flags);
  AddMatrix(*perf, *flags);
  AddRanks(*perf, *flags);
  AddOutputs(*perf, flags->outputs);
  perf->callback([flags, perf, &exit_code] {
    for (const char* const name : kUnfitForMatrix)
      if (perf->count(name) > 0 && flags->unfit_for_matrix.empty()) flags->unfit_for_matrix = name;
    exit_code = RunPerf(*flags);
  });
}

}  // namespace rondo
