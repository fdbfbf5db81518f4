// Tests PerfBench on real communicators, with ranks as threads. Correct results must pass, and wrong results must be
// found. For wrong results, one rank makes other calls than the other ranks expect.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/ranks.h"
#include "tools/perf/bench.h"
#include "transport/inproc/inproc.h"

namespace rondo {
namespace perf_bench_test {

const SteadyClock kClock;

void Failed(const std::string& why) { FAIL_CHECK(why); }

// Runs `body` on every rank of a world of threads, then closes the communicators.
void OnRanks(int world_size, const std::function<void(Communicator&)>& body) {
  OnRanks(InprocNetwork(world_size), [&](Communicator& communicator) {
    body(communicator);
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

PerfOptions Small(std::vector<DataType> types, std::vector<ReduceOp> ops) {
  PerfOptions options;
  options.collectives = {{Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast, Collective::kAllGather,
                          Collective::kReduceScatter, Collective::kGather, Collective::kScatter, Collective::kAllToAll,
                          Collective::kBarrier},
                         true};
  options.types = {std::move(types), true};
  options.ops = {std::move(ops), true};
  options.roots = {{}, true};
  options.min_bytes = 0;
  options.max_bytes = 10'000;
  options.step_factor = 37;
  options.iterations = 2;
  options.warmup = 0;
  return options;
}

void ExpectNothingWrong(int world_size, const PerfOptions& options) {
  OnRanks(world_size, [&](Communicator& communicator) {
    std::string complaints;
    PerfBench bench(communicator, kClock, [&](const std::string& line) { complaints += line + "\n"; });
    const auto cases = PlanCases(options, world_size);
    if (!cases) return Failed(cases.error().ToString());
    if (const Status ready = bench.Prepare(options, *cases); !ready) return Failed(ready.error().ToString());
    for (const PerfCase& which : *cases) {
      for (const bool in_place : Placements(options, which)) {
        const auto row = bench.Measure(which, in_place);
        if (!row) return Failed(row.error().ToString());
        if (row->wrong != 0u || row->iterations != 2 || row->min_us <= 0 || row->min_us > row->max_us) {
          return Failed(fmt::format("{} {} {} x {}: {} wrong, {} iterations, {} to {} us", which.Subject(),
                                    which.TypeName(), which.OpName(), which.count, row->wrong.value_or(1),
                                    row->iterations, row->min_us, row->max_us));
        }
      }
    }
    CHECK(complaints == "");
  });
}

TEST_CASE("every type, operation, root and placement is measured and nothing is wrong") {
  const PerfOptions options =
      Small({kAllDataTypes.begin(), kAllDataTypes.end()}, {kAllReduceOps.begin(), kAllReduceOps.end()});
  for (const int world_size : {1, 3}) ExpectNothingWrong(world_size, options);
}

TEST_CASE("the exchange with neighbours is measured for every type and nothing is wrong") {
  PerfOptions options = Small({kAllDataTypes.begin(), kAllDataTypes.end()}, {ReduceOp::kSum});
  options.collectives = {};
  options.send_recv = true;
  for (const int world_size : {1, 2, 3}) ExpectNothingWrong(world_size, options);
}

TEST_CASE("every algorithm is measured and named") {
  PerfOptions options = Small({DataType::kFloat32}, {ReduceOp::kSum});
  options.algorithms = {{}, true};
  ExpectNothingWrong(3, options);
}

TEST_CASE("every algorithm is measured with counts that differ, too") {
  PerfOptions options = Small({DataType::kInt8, DataType::kFloat64}, {ReduceOp::kSum});
  options.algorithms = {{}, true};
  options.uneven = true;
  for (const int world_size : {1, 2, 5}) ExpectNothingWrong(world_size, options);
}

TEST_CASE("reductions are measured in reproducible mode beside the free choice, and with fp32_accumulate") {
  PerfOptions options = Small({DataType::kFloat16}, {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kPremulSum});
  options.reproducible = true;
  ExpectNothingWrong(3, options);
  options.fp32_accumulate = true;
  ExpectNothingWrong(3, options);
}

TEST_CASE("uneven counts rise, and their sum is that of equal ones") {
  for (const int world_size : {1, 2, 3, 7, 100}) {
    for (const std::uint64_t count :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{1} << 40}) {
      PerfCase which;
      which.count = count;
      which.uneven = true;
      const std::vector<std::uint64_t> counts = CountsOf(which, world_size);
      const auto ranks = static_cast<std::uint64_t>(world_size);
      CHECK(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) == count * ranks);
      if (count >= ranks) CHECK(std::is_sorted(counts.begin(), counts.end()));
    }
  }
}

TEST_CASE("sizes are rounded down to whole units, none to less than one") {
  PerfOptions options;
  options.min_bytes = 0;
  options.max_bytes = 100;
  CHECK(SweepBytes(options, 12) == std::vector<std::uint64_t>{0, 12, 24, 48, 96});
  options.min_bytes = 8;
  CHECK(SweepBytes(options, 12) == std::vector<std::uint64_t>{12, 24, 60});
}

TEST_CASE("on one host a collective with a root lasts from the root's start to the last rank's end") {
  PerfOptions options = Small({DataType::kInt32}, {ReduceOp::kSum});
  options.in_place = false;
  OnRanks(2, [&](Communicator& communicator) {
    ManualClock clock;  // stands still during the measurement; rank 1's clock is 4 s ahead
    if (communicator.rank() == 1) clock.Advance(std::chrono::seconds(4));
    PerfBench bench(communicator, clock, [](const std::string&) {});
    const PerfCase from_early{.collective = Collective::kScatter, .type = DataType::kInt32, .root = 0, .count = 10};
    const PerfCase from_late{.collective = Collective::kScatter, .type = DataType::kInt32, .root = 1, .count = 10};
    const PerfCase rootless{.collective = Collective::kAllReduce, .type = DataType::kInt32, .count = 10};
    CHECK(bench.Prepare(options, {from_early, from_late, rootless}).has_value());
    const auto measured_us = [&](const PerfCase& which) {
      const auto row = bench.Measure(which, false);
      if (!row) Failed(row.error().ToString());
      return row ? row->median_us : -1;
    };
    CHECK(measured_us(from_early) == doctest::Approx(4e6));
    CHECK(measured_us(from_late) == doctest::Approx(0));
    CHECK(measured_us(rootless) == doctest::Approx(0));
  });
}

// The clock advances by a microsecond at every call.
class TickingClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(std::chrono::microseconds(++ticks_)); }

 private:
  mutable std::atomic<std::int64_t> ticks_{0};
};

TEST_CASE("a measurement for which a time was given goes on until that is over, however fast an operation is") {
  PerfOptions options = Small({DataType::kInt32}, {ReduceOp::kSum});
  options.iterations.reset();
  const PerfCase barrier{.collective = Collective::kBarrier};
  const auto measured = [&](std::optional<Duration> time) {
    std::uint64_t iterations = 0;
    double seconds = 0;
    options.time_per_size = time;
    OnRanks(2, [&](Communicator& communicator) {
      const TickingClock clock;
      PerfBench bench(communicator, clock, [](const std::string&) {});
      CHECK(bench.Prepare(options, {barrier}).has_value());
      const TimePoint begin = clock.Now();
      const auto row = bench.Measure(barrier, false);
      if (!row) return Failed(row.error().ToString());
      if (communicator.rank() != 0) return;
      iterations = row->iterations;
      seconds = std::chrono::duration<double>(clock.Now() - begin).count();
    });
    return std::pair(iterations, seconds);
  };
  const auto [iterations, seconds] = measured(std::chrono::milliseconds(50));  // each iteration reads the clock twice
  CHECK(iterations > 20'000);
  CHECK(seconds >= 0.05);
  CHECK(seconds < 0.06);
  CHECK(measured(std::nullopt).first <= 4000);
}

TEST_CASE("of more times than are kept, the extremes are exact and quantiles are those of an even part") {
  TimeSamples times(/*most_kept=*/1000);
  for (int i = 0; i < 100'000; ++i) times.Add(1 + i * 7919LL % 100'000);  // each number once
  CHECK(times.count() == 100'000);
  CHECK(times.min() == 1);
  CHECK(times.max() == 100'000);
  CHECK(times.Quantile(0.99) == doctest::Approx(99'000).epsilon(0.02));
  TimeSamples few(4);
  for (const double us : {3.0, 1.0, 2.0}) few.Add(us);
  CHECK(few.Quantile(0.5) == 2);
}

TEST_CASE("a rank that brings other data than it should is caught, and the place and values are reported") {
  PerfOptions options = Small({DataType::kInt32}, {ReduceOp::kSum});
  options.in_place = false;
  const PerfCase which{.type = DataType::kInt32, .count = 1000};
  std::vector<std::string> complaints;
  OnRanks(2, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {  // makes the same calls as a measurement, with zeros as data
      std::vector<std::int32_t> zeros(1000), result(1000);
      for (int call = 0; call < 1 + 2; ++call) {
        CHECK(communicator.AllReduce(zeros.data(), result.data(), 1000, DataType::kInt32, ReduceOp::kSum).has_value());
      }
      for (const char* what : {"two times", "two ranks' wrong elements"}) {
        CAPTURE(what);
        std::vector<double> numbers(2);
        CHECK(
            communicator.AllReduce(numbers.data(), numbers.data(), 2, DataType::kFloat64, ReduceOp::kMax).has_value());
      }
      return;
    }
    PerfBench bench(communicator, kClock, [&](const std::string& line) { complaints.push_back(line); });
    CHECK(bench.Prepare(options, {which}).has_value());
    const auto row = bench.Measure(which, false);
    if (!row) return Failed(row.error().ToString());
    // Wrong elements are counted twice: after the first and after the timed operations.
    CHECK(row->wrong.value_or(0) > 1900);
  });
  REQUIRE(complaints.size() == 2);
  CHECK(complaints.front().find("all_reduce int32 sum, 1000 elements, out of place, after the first operation") == 0);
  CHECK(complaints.front().find("elements of the output are wrong; number 0 is ") != std::string::npos);
}

}  // namespace perf_bench_test
}  // namespace rondo
