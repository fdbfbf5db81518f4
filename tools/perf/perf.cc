// rondo perf: measures and checks collectives.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/tasks.h"
#include "collectives/connect.h"
#include "collectives/cpu_list.h"
#include "cuda/cuda.h"
#include "rendezvous/url/init_method.h"
#include "tools/common/commands.h"
#include "tools/common/interrupt.h"
#include "tools/common/output.h"
#include "tools/perf/checks.h"
#include "tools/perf/flags.h"
#include "tools/perf/session.h"
#include "tools/run/launch.h"
#include "transport/inproc/inproc.h"
#include "transport/shared_segment.h"

namespace rondo {
namespace {

// ---- how ranks are made: threads, launched processes, or this process ----

void ApplyDevice(const PerfFlags& flags, CommunicatorOptions& options) {
  if (IsOnGpu(flags.measure.memory)) options.device = OpenCudaLazily();
  options.device_peers = flags.measure.memory != PerfMemory::kStaged;
  if (flags.device_window_bytes) options.device_window_bytes = *flags.device_window_bytes;
  if (flags.gpu_timeslice_staging_max_bytes)
    options.gpu_timeslice_staging_max_bytes = *flags.gpu_timeslice_staging_max_bytes;
}

// Writes the contents of the flight recorder, for --record-dir. If that fails, the result of the measurement stays
// valid.
void LeaveRecords(const Communicator& communicator, const char* reason, bool say_where) {
  const Result<std::string> written = communicator.WriteRecords(reason);
  if (!written)
    PrintError("rondo perf: rank {}: --record-dir: {}\n", communicator.rank(), written.error().message());
  else if (say_where)
    PrintError("rondo perf: rank {}: records in {}\n", communicator.rank(), *written);
}

void AnswerReport(const Communicator& communicator, const PerfFlags& flags) {
  if (!flags.outputs.record_dir.empty()) return LeaveRecords(communicator, "signal", /*say_where=*/true);
  PrintError("rondo perf: rank {}: SIGUSR1: no records are written, because there is no --record-dir\n",
             communicator.rank());
}

// Runs the whole measurement of one rank on its communicator. Returns the exit code.
int MeasureOnRank(Communicator& communicator, const Clock& clock, const PerfFlags& flags) {
  const auto report = [&](const Error& error, int exit_code) {
    return Complain("perf", fmt::format("rank {}: {}", communicator.rank(), error.ToString()), exit_code);
  };
  // Reports an error in usage that only rank 0 can detect. The abort sends the message to the other ranks.
  const auto refuse = [&](const Error& error) {
    communicator.Abort(error.message());
    return Complain("perf", error.message(), kExitWrongUsage);
  };
  // Reports why a measurement has no result. kInvalidArgument means an unsuitable baseline, so it is reported as wrong
  // usage.
  const auto report_measuring = [&](const Error& error) {
    return report(error, error.code() == ErrorCode::kInvalidArgument ? kExitWrongUsage : kExitFailed);
  };
  // Writes records unless the communicator has failed, because a failed communicator has written its records itself.
  const auto leave_records = [&] {
    if (!flags.outputs.record_dir.empty() && !communicator.failure())
      LeaveRecords(communicator, "end", /*say_where=*/false);
  };
  if (flags.matrix) {
    if (const Status files = communicator.rank() == 0 ? CheckPerfFiles(flags) : Status{}; !files)
      return refuse(files.error());
    const auto good = MeasureMatrix(communicator, clock, flags.of_matrix, flags.outputs);
    leave_records();
    if (!good) return report_measuring(good.error());
    if (const Status closed = communicator.Close(); !closed) return report(closed.error(), kExitFailed);
    return *good ? kExitDone : kExitFailed;
  }
  PerfOptions measure = flags.measure;
  measure.intranode = SharesMemory(flags) && communicator.topology().host_count() == 1 &&
                      communicator.world_size() <= kMaxSharedSegmentRanks;
  const auto cases = PlanCases(measure, communicator.world_size());
  if (!cases) return Complain("perf", cases.error().message(), kExitWrongUsage);
  if (communicator.rank() == 0) {
    if (const Status files = CheckPerfFiles(flags); !files) return refuse(files.error());
  }
  const auto verdict = MeasureAll(communicator, clock, measure, *cases, flags.outputs);
  leave_records();
  if (!verdict) return report_measuring(verdict.error());
  if (const Status closed = communicator.Close(); !closed) return report(closed.error(), kExitFailed);
  return verdict->good() ? kExitDone : kExitFailed;
}

// The abort reason that the peers of an interrupted rank get.
std::string ReasonOf(int signal) { return signal == SIGINT ? "interrupted" : "asked to end by SIGTERM"; }

int AsExitCode(const InterruptWatch& interrupts, int exit_code) {
  return interrupts.signal() != 0 ? 128 + interrupts.signal() : exit_code;
}

// Runs all ranks as threads of this process.
int MeasureInProcess(const PerfFlags& flags) {
  const auto watch = InterruptWatch::Start();
  if (!watch) return Complain("perf", watch.error().ToString(), kExitFailed);
  InterruptWatch& interrupts = **watch;
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
  std::mutex mutex;  // guards `communicators`
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
  threads.reserve(static_cast<std::size_t>(ranks));
  std::promise<bool> all_started;  // false if a thread could not be started; in that case no rank begins
  const std::shared_future<bool> begin = all_started.get_future().share();
  const auto measure = [&, begin](Rank rank) {
    if (!begin.get()) return;
    CommunicatorOptions options;
    options.rank = rank;
    options.peers = peers;
    options.transport = network.transport(rank);
    options.clock = clock;
    options.timeout = flags.timeout;
    options.profile = flags.profile;
    options.record_dir = flags.outputs.record_dir;
    options.rails = flags.measure.rails;
    ApplyDevice(flags, options);
    flags.integrity.ApplyTo(options);
    auto created = Communicator::Create(std::move(options));
    if (!created) {
      Complain("perf", fmt::format("rank {}: {}", rank, created.error().ToString()), kExitFailed);
      return;
    }
    Communicator& communicator = **created;
    {
      const std::lock_guard lock(mutex);
      communicators[static_cast<std::size_t>(rank)] = std::move(*created);
      // An interrupt may have been received before this communicator existed.
      if (interrupts.signal() != 0) communicator.Abort(ReasonOf(interrupts.signal()));
    }
    exit_codes[static_cast<std::size_t>(rank)] = MeasureOnRank(communicator, *clock, flags);
  };
  try {
    for (Rank rank = 0; rank < ranks; ++rank) threads.emplace_back(measure, rank);
    all_started.set_value(true);
  } catch (const std::system_error& failed) {
    all_started.set_value(false);
    Complain("perf",
             fmt::format("resource: only {} of {} ranks could get a thread: {}", threads.size(), ranks,
                         TaskWords(failed.code().value())),
             kExitFailed);
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

// The RDMA port of this rank. Ranks of one host take the ports of --ib-dev in turn.
std::string RdmaPortOf(const PerfFlags& flags, const Result<InitMethod>& method) {
  if (flags.rdma_ports.empty()) return "";
  std::optional<int> turn = flags.rank;
  if (!turn && method) turn = method->launch && method->launch->local_rank ? method->launch->local_rank : method->rank;
  return flags.rdma_ports[static_cast<std::size_t>(turn.value_or(0)) % flags.rdma_ports.size()];
}

// Runs this process as one of several ranks.
int MeasureAsRank(PerfFlags& flags) {
  const std::string url = flags.rendezvous.empty() ? "env://" : flags.rendezvous;
  const auto method = ParseInitMethod(url, ProcessEnvironment);
  if (!method && flags.rendezvous.empty()) {
    return Complain("perf",
                    "no ranks were given: give -N RANKS to start them here, or start this program by a launcher; " +
                        method.error().ToString(),
                    kExitWrongUsage);
  }
  if (method && !flags.launched) {  // not with -N, because the user knows how the ranks were started
    InitMethod described = *method;
    if (flags.rank) described.rank = flags.rank;
    if (flags.world_size) described.world_size = flags.world_size;
    flags.outputs.launch = described.Describe();
  }
  const auto watch = InterruptWatch::Start();
  if (!watch) return Complain("perf", watch.error().ToString(), kExitFailed);
  InterruptWatch& interrupts = **watch;
  const SteadyClock clock;
  // Only one rank prints warnings, because the other ranks usually have the same networks and devices.
  StderrWarnings warnings("perf");
  const std::optional<Rank> own_rank = flags.rank ? flags.rank : method ? method->rank : std::nullopt;
  ConnectOptions options;
  if (own_rank.value_or(0) == 0) options.logger = &warnings;
  options.rendezvous = url;
  options.rank = flags.rank;
  options.world_size = flags.world_size;
  options.environment = ProcessEnvironment;
  options.addresses = flags.addresses;
  if (!flags.rank_addresses.empty() && method && method->rank)
    options.addresses = {flags.rank_addresses.at(static_cast<std::size_t>(*method->rank))};
  options.interface = flags.interface;
  options.ports = flags.ports;
  // Not for a launched rank, because its launcher has set RONDO_TLS and the key in the environment.
  if (flags.tls && !flags.launched) options.tls = TlsOptions{.mode = *flags.tls};
  options.path = PathOf(flags.transport);
  options.rdma_port = RdmaPortOf(flags, method);
  options.timeout = flags.timeout;
  options.communicator.profile = flags.profile;
  options.communicator.record_dir = flags.outputs.record_dir;
  options.communicator.rails = flags.measure.rails;
  ApplyDevice(flags, options.communicator);
  flags.integrity.ApplyTo(options.communicator);
  const auto communicator = Connect(options);
  if (!communicator) {
    const std::optional<Rank> rank = flags.rank ? flags.rank : method ? method->rank : std::nullopt;
    const bool usage = communicator.error().code() == ErrorCode::kInvalidArgument;
    return Complain("perf", (rank ? fmt::format("rank {}: ", *rank) : "") + communicator.error().ToString(),
                    usage ? kExitWrongUsage : kExitFailed);
  }
  interrupts.OnInterrupt([&](int signal) { (*communicator)->Abort(ReasonOf(signal)); });
  interrupts.OnReport([&] { AnswerReport(**communicator, flags); });
  const int exit_code = MeasureOnRank(**communicator, clock, flags);
  interrupts.OnInterrupt(nullptr);
  interrupts.OnReport(nullptr);
  return AsExitCode(interrupts, exit_code);
}

int MeasureOnLocalRanks(const PerfFlags& flags) {
  LaunchOptions launch;
  launch.ranks = *flags.local_ranks;
  launch.command = CommandOfARank(flags.command_line);
  launch.program = "rondo perf";
  launch.tls = flags.tls;
  launch.ports = flags.ports;
  launch.tag_output = false;  // only rank 0 prints, and errors name their rank
  launch.explained_exit_code = kExitFailed;
  const SteadyClock clock;
  const Result<int> code = Launch(launch, clock);
  return code ? *code : Complain("perf", code.error().ToString(), kExitFailed);
}

int RunPerf(PerfFlags& flags) {
  if (const Status settled = SettlePerfFlags(flags); !settled)
    return Complain("perf", settled.error().message(), kExitWrongUsage);
  if (flags.transport == "inproc") return MeasureInProcess(flags);
  return flags.local_ranks && !flags.launched ? MeasureOnLocalRanks(flags) : MeasureAsRank(flags);
}

}  // namespace

void AddPerfCommand(CLI::App& app, const std::vector<std::string>& command_line, int& exit_code) {
  auto flags = std::make_shared<PerfFlags>();
  flags->command_line = command_line;
  CLI::App* perf = app.add_subcommand("perf", "Measure collectives, and check every element of their results");
  perf->footer(
      "Times are those of the slowest rank in each iteration: median and 99th percentile. algbw is the\nsize divided "
      "by the time; busbw is algbw times the factor that nccl-tests uses, to be compared with the speed of\na link. "
      "The exit code is 1 if a value is wrong.\nExample: rondo perf all_reduce -N 4 -b 4 -e 64M -f 4 --algorithm all "
      "--html out.html\n         rondo perf send_recv --matrix --addresses 10.0.0.1,10.0.0.2,10.0.0.3 --min-gbps 90 "
      "--html pairs.html");
  AddPerfFlags(*perf, *flags);
  perf->callback([flags, &exit_code] { exit_code = RunPerf(*flags); });
}

}  // namespace rondo
