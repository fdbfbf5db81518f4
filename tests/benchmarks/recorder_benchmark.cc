// Measures what it costs a thread to record an operation, compared with the cost of the clocks.
//
//   bazel run --config=release //tests/benchmarks:recorder_benchmark
//
// ran_at_once is the cost for a short operation on the intranode path. It includes a read of the coarse clock.
// step_by_step is the cost for any other operation, which has read the clock already.
#include <benchmark/benchmark.h>

#include <memory>
#include <utility>

#include "base/clock.h"
#include "collectives/recorder/flight_recorder.h"

namespace rondo {
namespace {

constexpr std::uint32_t kRecords = 1024;  // the default of CommunicatorOptions

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
  // The clock is called through a pointer to its base class, as in the library.
  const std::shared_ptr<const Clock> clock = std::make_shared<SteadyClock>();
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
