// Compares the counts of the cost model with counts made by hand for small worlds, and with the formulas of papers.
#include "collectives/model/cost.h"

#include <doctest/doctest.h>

#include "collectives/algorithms/formulas.h"

namespace rondo {
namespace cost_test {

ScheduleCost Cost(Collective collective, Algorithm algorithm, const Topology& topology) {
  return CostOf(*FindAlgorithm(collective, algorithm), topology);
}

TEST_CASE("the ring among 3 ranks: 4 hops in a row, 4 messages out and 4 in, two thirds of the vector combined") {
  const ScheduleCost cost = Cost(Collective::kAllReduce, Algorithm::kRing, Topology::OneHost(3, 8));
  CHECK(cost.hops == 4);
  CHECK(cost.remote_hops == 0);
  CHECK(cost.rank.messages == 8);
  CHECK(cost.rank.moved == doctest::Approx(8.0 / 3));
  CHECK(cost.rank.reduced == doctest::Approx(2.0 / 3));
  CHECK(cost.wire == 0);
}

TEST_CASE(
    "the direct exchange is one hop however many ranks there are, because its messages do not wait for one another") {
  const ScheduleCost cost = Cost(Collective::kAllReduce, Algorithm::kDirect, Topology::OneHost(8, 8));
  CHECK(cost.hops == 1);
  CHECK(cost.rank.messages == 14);
  CHECK(cost.rank.moved == doctest::Approx(14));
}

TEST_CASE("pairwise all_to_all goes from partner to partner by signals, direct all_to_all to all at once") {
  CHECK(Cost(Collective::kAllToAll, Algorithm::kPairwise, Topology::OneHost(8, 8)).hops == 7);
  CHECK(Cost(Collective::kAllToAll, Algorithm::kDirect, Topology::OneHost(8, 8)).hops == 1);
  CHECK(Cost(Collective::kAllToAll, Algorithm::kBruck, Topology::OneHost(8, 8)).hops == 3);
}

TEST_CASE("what one rank sends to another in one round goes together, up to five at a time") {
  // Pairwise: seven rounds, each with a block and, except for the last round, a signal. Bruck: three rounds of four
  // blocks each.
  CHECK(Cost(Collective::kAllToAll, Algorithm::kPairwise, Topology::OneHost(8, 8)).rank.messages == 14);
  CHECK(Cost(Collective::kAllToAll, Algorithm::kBruck, Topology::OneHost(8, 8)).rank.messages == 6);
  // Eight blocks in a round are more than one write can contain.
  CHECK(Cost(Collective::kAllToAll, Algorithm::kBruck, Topology::OneHost(16, 16)).rank.messages == 16);
}

TEST_CASE("a barrier's signals are hops without bytes") {
  const ScheduleCost cost = Cost(Collective::kBarrier, Algorithm::kDissemination, Topology::OneHost(8, 8));
  CHECK(cost.hops == 3);
  CHECK(cost.rank.messages == 6);
  CHECK(cost.rank.moved == 0);
}

TEST_CASE("in a world of one nothing is to be done") {
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    const ScheduleCost cost = CostOf(entry, Topology::OneHost(1, 2));
    CHECK(cost.hops == 0);
    CHECK(cost.rank.messages == 0);
    CHECK(cost.rank.moved == 0);
  }
}

TEST_CASE(
    "the busiest rank moves at least what it sends by the paper's formula, in no more hops than the paper's rounds") {
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    for (const int world : {2, 3, 4, 7, 8, 33}) {
      const auto paper = PaperCost(entry.collective, entry.algorithm, world);
      REQUIRE(paper);
      const ScheduleCost cost = CostOf(entry, Topology::OneHost(world, 0));
      CAPTURE(Name(entry.collective));
      CAPTURE(Name(entry.algorithm));
      CAPTURE(world);
      CHECK(cost.rank.moved >= doctest::Approx(paper->sent.value()));
      CHECK(cost.hops <= static_cast<int>(paper->rounds));
      CHECK(cost.hops >= 1);
    }
  }
}

TEST_CASE("ranks of one host share its cores: the work of 8 ranks on 2 cores is four times that of one") {
  const ScheduleCost oversubscribed = Cost(Collective::kAllReduce, Algorithm::kRing, Topology::OneHost(8, 2));
  CHECK(oversubscribed.core.moved == doctest::Approx(4 * oversubscribed.rank.moved));
  const ScheduleCost roomy = Cost(Collective::kAllReduce, Algorithm::kRing, Topology::OneHost(8, 16));
  CHECK(roomy.core.moved == doctest::Approx(roomy.rank.moved));
}

TEST_CASE("a topology is oversubscribed if a host has more ranks than cores; an unknown number of cores suffices") {
  CHECK(Topology::OneHost(3, 2).oversubscribed());
  CHECK_FALSE(Topology::OneHost(2, 2).oversubscribed());
  CHECK_FALSE(Topology::OneHost(99, 0).oversubscribed());
  CHECK(Topology{{0, 0, 1, 1, 1}, {2, 2}}.oversubscribed());
}

TEST_CASE("between hosts the hierarchical all_reduce puts a part of the flat ring's bytes on the wire") {
  // ranks alternate between hosts, so every hop of a ring is between two hosts
  Topology topology{{0, 1, 0, 1, 0, 1, 0, 1}, {4, 4}};
  const ScheduleCost flat = Cost(Collective::kAllReduce, Algorithm::kRing, topology);
  const ScheduleCost layered = Cost(Collective::kAllReduce, Algorithm::kHierarchical, topology);
  CHECK(flat.remote_hops == 14);
  CHECK(layered.remote_hops == 2);
  CHECK(flat.wire == doctest::Approx(4 * 14.0 / 8));
  CHECK(layered.wire == doctest::Approx(1.0));
}

TEST_CASE("beyond the counted worlds every count goes on without a jump") {
  const auto close = [](double counted, double continued) {
    return continued >= 0.95 * counted && continued <= 1.05 * counted + 1e-9;
  };
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    const ScheduleCost counted = CostOf(entry, Topology::OneHost(kCountedRanks, 64));
    const ScheduleCost continued = CostOf(entry, Topology::OneHost(kCountedRanks + 1, 64));
    CAPTURE(Name(entry.collective));
    CAPTURE(Name(entry.algorithm));
    CHECK(close(counted.hops, continued.hops));
    CHECK(close(counted.rank.messages, continued.rank.messages));
    CHECK(close(counted.rank.moved, continued.rank.moved));
    CHECK(close(counted.rank.reduced, continued.rank.reduced));
    CHECK(close(counted.core.moved, continued.core.moved));
  }
}

TEST_CASE("counts of the largest world follow the growth of the counted ones") {
  const auto at = [](Collective collective, Algorithm algorithm) {
    return Cost(collective, algorithm, Topology::OneHost(65536, 0));
  };
  CHECK(at(Collective::kAllReduce, Algorithm::kRing).hops == doctest::Approx(2 * 65535).epsilon(0.05));
  CHECK(at(Collective::kAllReduce, Algorithm::kRing).rank.moved == doctest::Approx(4).epsilon(0.05));
  CHECK(at(Collective::kReduce, Algorithm::kDirect).rank.moved == doctest::Approx(65535).epsilon(0.05));
  CHECK(at(Collective::kBarrier, Algorithm::kDissemination).hops >= 16);
  // The right number is 16, but the model extrapolates the logarithm as a small power of the world size.
  CHECK(at(Collective::kBarrier, Algorithm::kDissemination).hops <= 48);
}

TEST_CASE("worlds of many hosts are continued from some of their hosts") {
  Topology topology;
  for (int rank = 0; rank < 4096; ++rank) topology.hosts.push_back(rank / 8);
  topology.cores.assign(512, 8);
  const ScheduleCost cost = Cost(Collective::kAllReduce, Algorithm::kHierarchical, topology);
  CHECK(cost.remote_hops == doctest::Approx(2 * 511).epsilon(0.15));
  CHECK(cost.wire == doctest::Approx(2).epsilon(0.15));
}

TEST_CASE("a prediction is the chain's latency plus the busiest of rank, core and link") {
  ScheduleCost cost;
  cost.hops = 3;
  cost.remote_hops = 1;
  cost.rank = {.messages = 4, .moved = 2, .reduced = 1};
  cost.core = {.messages = 8, .moved = 4, .reduced = 2};
  cost.wire = 1;
  MachineCosts machine{.hop_us = 1,
                       .oversubscribed_latency_us = 10,
                       .remote_hop_us = 100,
                       .message_us = 0.5,
                       .byte_ns = 1,
                       .reduce_byte_ns = 2,
                       .wire_gbit_per_s = 8};
  CHECK(PredictUs(cost, false, machine, 0) == doctest::Approx(2 * 1 + 100 + 8 * 0.5));
  CHECK(PredictUs(cost, true, machine, 0) == doctest::Approx(2 * 10 + 100 + 8 * 0.5));
  CHECK(PredictUs(cost, false, machine, 1e6) == doctest::Approx(102 + 4 + 1e6 * (4 * 1 + 2 * 2) * 1e-3));
  machine.wire_gbit_per_s = 0.8;  // 10 ns for each byte
  CHECK(PredictUs(cost, false, machine, 1e6) == doctest::Approx(102 + 1e4));
}

}  // namespace cost_test
}  // namespace rondo
