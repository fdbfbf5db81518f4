// What recording an operation costs the thread that runs it, and what the clocks cost beside that.
//
//   bazel run --config=release //tests/benchmarks:recorder_benchmark
//
// ran_at_once is what a short operation on the intranode path pays, the coarse clock's time included; step_by_step what
// any other does, which has looked at the clock anyway.
#include <benchmark/benchmark.h>

#include <memory>
#include <utility>

#include "base/clock.h"
#include "collectives/recorder/flight_recorder.h"

namespace rondo {
namespace {

constexpr std::uint32_t kRecords = 1024;  // as CommunicatorOptions has it

CollectiveCall Call(Sequence sequence) {
  return {.sequence = sequence,
          .collective = Collective::kAllReduce,
          .algorithm = Algorithm::kIntranode,
          .op = ReduceOp::kSum,
          .type = DataType::kFloat32,
          .count = 1,
          .timeout = std::chrono::seconds(60)};
}

void RanAtOnce(benchmark::State& state) {
  auto recorder = FlightRecorder::Create(kRecords);
  const std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();  // behind a pointer, as it is in use
  Sequence sequence = 0;
  for (auto _ : state) (*recorder)->RanAtOnce(Call(++sequence), clock->CoarseNow());
}
BENCHMARK(RanAtOnce)->Name("ran_at_once");

void StepByStep(benchmark::State& state) {
  auto recorder = FlightRecorder::Create(kRecords);
  const TimePoint now = SteadyClock().Now();
  Sequence sequence = 0;
  for (auto _ : state) {
    (*recorder)->Issued(Call(++sequence), now);
    (*recorder)->Started(sequence, Algorithm::kRing, now, /*coarse=*/false);
    (*recorder)->Completed(sequence, now);
  }
}
BENCHMARK(StepByStep)->Name("step_by_step");

void CoarseClock(benchmark::State& state) {
  const std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
  for (auto _ : state) benchmark::DoNotOptimize(clock->CoarseNow());
}
BENCHMARK(CoarseClock)->Name("clock/coarse");

void FineClock(benchmark::State& state) {
  const std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
  for (auto _ : state) benchmark::DoNotOptimize(clock->Now());
}
BENCHMARK(FineClock)->Name("clock/fine");

}  // namespace
}  // namespace rondo

BENCHMARK_MAIN();
