// Computes times from constants of the cost model, and checks that the fit recovers these constants.
#include "collectives/model/fit.h"

#include <doctest/doctest.h>

namespace rondo {
namespace fit_test {

constexpr MachineCosts kStart{.hop_us = 2,
                              .oversubscribed_latency_us = 5,
                              .remote_hop_us = 20,
                              .message_us = 3,
                              .byte_ns = 0.2,
                              .reduce_byte_ns = 0.05,
                              .wire_gbit_per_s = 25};

std::vector<MeasuredWorld> TimesOf(const MachineCosts& machine, int cores) {
  std::vector<MeasuredWorld> worlds;
  for (const int ranks : {2, 3, 8}) {
    const Topology topology = Topology::OneHost(ranks, cores);
    for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kAllToAll}) {
      MeasuredWorld world{collective, ranks, topology.oversubscribed(), {4, 1024, 1 << 16, 1 << 22}, {}};
      for (const AlgorithmEntry& entry : AllAlgorithms()) {
        if (entry.collective != collective) continue;
        MeasuredWorld::Times times{entry.algorithm, {}};
        for (const std::uint64_t bytes : world.bytes)
          times.us.push_back(
              PredictUs(CostOf(entry, topology), topology.oversubscribed(), machine, static_cast<double>(bytes)));
        world.times.push_back(times);
      }
      worlds.push_back(world);
    }
  }
  return worlds;
}

TEST_CASE("the constants that made the times are found again, from a start that is far off") {
  const MachineCosts truth{.hop_us = 2,
                           .oversubscribed_latency_us = 11,
                           .remote_hop_us = 1,
                           .message_us = 0.7,
                           .byte_ns = 0.2,
                           .reduce_byte_ns = 0.08,
                           .wire_gbit_per_s = 10};
  const MachineCosts start{.hop_us = 20,
                           .oversubscribed_latency_us = 1,
                           .remote_hop_us = 33,
                           .message_us = 5,
                           .byte_ns = 1,
                           .reduce_byte_ns = 1,
                           .wire_gbit_per_s = 44};
  const Fit fit = FitCosts(start, TimesOf(truth, 2), 2);
  CHECK(fit.typical_error < 1.02);
  CHECK(fit.costs.hop_us == doctest::Approx(truth.hop_us).epsilon(0.1));
  CHECK(fit.costs.oversubscribed_latency_us == doctest::Approx(truth.oversubscribed_latency_us).epsilon(0.1));
  CHECK(fit.costs.message_us == doctest::Approx(truth.message_us).epsilon(0.1));
  CHECK(fit.costs.byte_ns == doctest::Approx(truth.byte_ns).epsilon(0.1));
  CHECK(fit.costs.reduce_byte_ns == doctest::Approx(truth.reduce_byte_ns).epsilon(0.2));
  // Times of one host do not determine the costs between hosts.
  CHECK(fit.costs.remote_hop_us == start.remote_hop_us);
  CHECK(fit.costs.wire_gbit_per_s == start.wire_gbit_per_s);
}

// Four ranks, each on a separate host.
std::vector<MeasuredWorld> TimesAcrossHosts(const MachineCosts& machine) {
  std::vector<MeasuredWorld> worlds;
  const Topology topology = Topology::Even(4, 4, 2);
  for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kAllToAll}) {
    MeasuredWorld world{collective, 4, false, {4, 1024, 1 << 16, 1 << 22}, {}, 4};
    for (const AlgorithmEntry& entry : AllAlgorithms()) {
      if (entry.collective != collective) continue;
      world.times.push_back({entry.algorithm, {}});
      for (const std::uint64_t bytes : world.bytes)
        world.times.back().us.push_back(PredictUs(CostOf(entry, topology), false, machine, static_cast<double>(bytes)));
    }
    worlds.push_back(world);
  }
  return worlds;
}

TEST_CASE("worlds across hosts tell what lies between hosts, beside others or alone") {
  MachineCosts truth = kStart;
  truth.remote_hop_us = 50;
  truth.wire_gbit_per_s = 1;
  const std::vector<MeasuredWorld> alone = TimesAcrossHosts(truth);
  std::vector<MeasuredWorld> beside_others = TimesOf(truth, 2);
  beside_others.insert(beside_others.end(), alone.begin(), alone.end());
  for (const auto& worlds : {alone, beside_others}) {
    const Fit fit = FitCosts(kStart, worlds, 2);
    CHECK(fit.typical_error < 1.02);
    CHECK(fit.costs.remote_hop_us == doctest::Approx(truth.remote_hop_us).epsilon(0.1));
    CHECK(fit.costs.wire_gbit_per_s == doctest::Approx(truth.wire_gbit_per_s).epsilon(0.1));
    CHECK(fit.costs.byte_ns == doctest::Approx(truth.byte_ns).epsilon(0.1));
  }
}

TEST_CASE("if no measured world was oversubscribed, oversubscribed_latency_us stays") {
  MachineCosts start = {.hop_us = 3,
                        .oversubscribed_latency_us = 17,
                        .remote_hop_us = 1,
                        .message_us = 1,
                        .byte_ns = 1,
                        .reduce_byte_ns = 1,
                        .wire_gbit_per_s = 1};
  const Fit fit = FitCosts(start,
                           TimesOf({.hop_us = 1,
                                    .oversubscribed_latency_us = 1,
                                    .remote_hop_us = 1,
                                    .message_us = 1,
                                    .byte_ns = 1,
                                    .reduce_byte_ns = 1,
                                    .wire_gbit_per_s = 1},
                                   64),
                           64);
  CHECK(fit.costs.oversubscribed_latency_us == 17);
  CHECK(fit.costs.hop_us == doctest::Approx(1).epsilon(0.1));
}

TEST_CASE("of what was not measured nothing is learnt, however far off the start: barriers say nothing of bytes") {
  const Fit fit = FitCosts(kStart, {{Collective::kBarrier, 2, false, {0}, {{Algorithm::kDissemination, {400}}}}}, 2);
  CHECK(fit.typical_error < 1.01);
  CHECK(fit.costs.byte_ns == kStart.byte_ns);
  CHECK(fit.costs.reduce_byte_ns == kStart.reduce_byte_ns);
  CHECK(fit.costs.oversubscribed_latency_us == kStart.oversubscribed_latency_us);
}

TEST_CASE("what the times barely show does not run away: bytes, where all vectors are tiny") {
  const Fit fit = FitCosts(kStart, {{Collective::kBroadcast, 2, false, {4, 64}, {{Algorithm::kTree, {5, 4.9}}}}}, 2);
  CHECK(fit.costs.byte_ns >= kStart.byte_ns / 1001);
  CHECK(fit.costs.byte_ns <= kStart.byte_ns * 1001);
}

}  // namespace fit_test
}  // namespace rondo
