// The choice of an algorithm: the fastest suitable one, by measured times if there are any, and the same one on every
// rank.
#include "collectives/model/selector.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "tests/support/threads.h"

namespace rondo {
namespace selector_test {

// A profile with round constants, so that the expected values do not depend on the default profile.
std::shared_ptr<const Profile> Unmeasured() {
  Profile profile;
  profile.name = "made up";
  profile.costs = {.hop_us = 2,
                   .oversubscribed_latency_us = 5,
                   .remote_hop_us = 20,
                   .message_us = 3,
                   .byte_ns = 0.2,
                   .reduce_byte_ns = 0.05,
                   .wire_gbit_per_s = 25};
  return std::make_shared<const Profile>(std::move(profile));
}

// A profile for two ranks of one host: the ring becomes faster than the tree at about 64 KiB, and direct is always much
// slower than both.
std::shared_ptr<const Profile> Measured() {
  Profile profile = *Unmeasured();
  profile.measured = {{Collective::kAllReduce,
                       2,
                       false,
                       {4, 1 << 12, 1 << 16, 1 << 20},
                       {{Algorithm::kRing, {9, 12, 40, 400}},
                        {Algorithm::kTree, {4, 6, 40, 900}},
                        {Algorithm::kTwoShot, {90, 90, 90, 800}},
                        {Algorithm::kDirect, {50, 100, 900, 9000}}}}};
  return std::make_shared<const Profile>(std::move(profile));
}

Call AllReduceOf(std::uint64_t bytes) { return {.collective = Collective::kAllReduce, .bytes = bytes}; }

Algorithm Chosen(const Selector& selector, const Call& call) {
  const auto selection = selector.Choose(std::nullopt, call);
  REQUIRE(selection);
  return selection->algorithm;
}

TEST_CASE("where times were measured the fastest of them is taken, at every size") {
  const Selector selector(Measured(), Topology::OneHost(2, 2));
  CHECK(Chosen(selector, AllReduceOf(0)) == Algorithm::kTree);
  CHECK(Chosen(selector, AllReduceOf(4)) == Algorithm::kTree);
  CHECK(Chosen(selector, AllReduceOf(1 << 14)) == Algorithm::kTree);
  CHECK(Chosen(selector, AllReduceOf(1 << 17)) == Algorithm::kRing);
  CHECK(Chosen(selector, AllReduceOf(std::uint64_t{1} << 50)) == Algorithm::kRing);
  CHECK(std::string(selector.Choose(std::nullopt, AllReduceOf(4))->reason) == "the fastest as measured");
}

TEST_CASE("the choice agrees with the ranking of candidates wherever one is clearly ahead") {
  const Selector selector(Unmeasured(), Topology::OneHost(5, 2));
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    for (std::uint64_t bytes = 4; bytes < std::uint64_t{1} << 32; bytes *= 7) {
      const Call call{.collective = entry.collective, .bytes = bytes};
      const auto candidates = selector.Candidates(call);
      const auto chosen = Chosen(selector, call);
      for (const Candidate& candidate : candidates)
        if (candidate.algorithm == chosen) CHECK(candidate.us <= candidates.front().us * 1.15);
    }
  }
}

TEST_CASE("times of another world, or of an otherwise subscribed one, do not count") {
  for (const Topology& topology : {Topology::OneHost(3, 8), Topology::OneHost(2, 1), Topology{{0, 1}, {8, 8}}}) {
    const Selector selector(Measured(), topology);
    CHECK(std::string(selector.Choose(std::nullopt, AllReduceOf(4))->reason) == "the fastest as predicted");
  }
}

TEST_CASE("times of ranks on several hosts hold where they are spread alike, in a row and evenly") {
  Profile profile = *Unmeasured();
  profile.measured = {{Collective::kAllReduce, 4, false, {4}, {{Algorithm::kChain, {1}}}, 2}};
  const auto chosen = [&](std::vector<int> hosts) {
    const Selector selector(std::make_shared<const Profile>(profile), Topology{std::move(hosts), {8, 8, 8, 8}});
    return Chosen(selector, AllReduceOf(4)) == Algorithm::kChain;
  };
  CHECK(chosen({0, 0, 1, 1}));
  CHECK_FALSE(chosen({0, 0, 0, 0}));
  CHECK_FALSE(chosen({0, 1, 2, 3}));
  CHECK_FALSE(chosen({0, 1, 0, 1}));
  CHECK_FALSE(chosen({0, 1, 1, 1}));
}

TEST_CASE("reproducible mode chooses among the left folds only, by their times") {
  const Selector selector(Measured(), Topology::OneHost(2, 2));
  Call call = AllReduceOf(4);
  call.reproducible = true;
  CHECK(Chosen(selector, call) == Algorithm::kDirect);
  call.bytes = 1 << 20;
  CHECK(Chosen(selector, call) == Algorithm::kTwoShot);
}

TEST_CASE("two algorithms within the noise of each other do not take turns") {
  Profile profile = *Measured();
  profile.measured[0].times = {{Algorithm::kRing, {10, 10, 10, 10}}, {Algorithm::kTree, {10.05, 9.95, 10.05, 9.95}}};
  const Selector selector(std::make_shared<const Profile>(profile), Topology::OneHost(2, 2));
  for (std::uint64_t bytes = 4; bytes <= 1 << 20; bytes *= 2)
    CHECK(Chosen(selector, AllReduceOf(bytes)) == Algorithm::kRing);
}

TEST_CASE("of several that come to the same the one with the lowest number is taken, whichever noise favours") {
  Profile profile = *Measured();
  profile.measured[0].times = {{Algorithm::kKnomial8, {10, 10, 10, 10}},
                               {Algorithm::kTree, {10.2, 10.3, 10.2, 10.4}},
                               {Algorithm::kRing, {11, 11, 11, 11}}};
  const Selector selector(std::make_shared<const Profile>(profile), Topology::OneHost(2, 2));
  CHECK(Chosen(selector, AllReduceOf(4)) == Algorithm::kTree);
}

TEST_CASE("a forced algorithm is taken, or refused with the reason and those that would do") {
  const Selector selector(Measured(), Topology::OneHost(2, 2));
  CHECK(selector.Choose(Algorithm::kDirect, AllReduceOf(1 << 20))->algorithm == Algorithm::kDirect);
  const auto wrong = selector.Choose(Algorithm::kBruck, AllReduceOf(4));
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message() == "algorithm bruck does not support all_reduce");
  Call call = AllReduceOf(4);
  call.reproducible = true;
  const auto unfit = selector.Choose(Algorithm::kRing, call);
  REQUIRE_FALSE(unfit);
  CHECK(unfit.error().message() ==
        "algorithm ring does not support this all_reduce: it does not reduce by the left fold in rank order, which "
        "reproducible mode needs (these do: direct, two_shot, chain)");
}

TEST_CASE("between hosts a large vector goes around the ring, whatever is a few hops faster for a small one") {
  const Selector selector(Unmeasured(), Topology::Even(4, 4, 8));
  CHECK(Chosen(selector, AllReduceOf(1 << 10)) != Algorithm::kRing);
  CHECK(Chosen(selector, AllReduceOf(16 << 20)) == Algorithm::kRing);
  CHECK(Chosen(selector, AllReduceOf(64 << 20)) == Algorithm::kRing);
}

TEST_CASE("between hosts the model prefers what crosses least") {
  Topology topology{{0, 1, 0, 1, 0, 1, 0, 1}, {8, 8}};
  const Selector selector(Unmeasured(), topology);
  CHECK(Chosen(selector, AllReduceOf(64 << 20)) == Algorithm::kHierarchical);
}

TEST_CASE("ranks, each with a selector of its own, choose alike for every kind of call and every size") {
  const Topology topology{{0, 0, 1, 1, 1, 2}, {2, 2, 8}};
  const Selector one(DefaultProfile(), topology), other(DefaultProfile(), topology);
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    for (int bits = 0; bits < 8; ++bits) {
      Call call{.collective = entry.collective,
                .bytes = 0,
                .reproducible = (bits & 1) != 0,
                .commutative = (bits & 2) == 0,
                .equal_counts = (bits & 4) == 0};
      if (!one.Choose(std::nullopt, call)) continue;
      for (call.bytes = 1; call.bytes < std::uint64_t{1} << 40; call.bytes = call.bytes * 3 / 2 + 1)
        CHECK(Chosen(one, call) == Chosen(other, call));
    }
  }
}

TEST_CASE("threads that choose at once choose alike") {
  const Selector selector(Unmeasured(), Topology::OneHost(8, 2));
  std::vector<std::vector<Algorithm>> chosen(4);
  OnThreads(chosen.size(), [&](std::size_t thread) {
    for (const AlgorithmEntry& entry : AllAlgorithms())
      for (std::uint64_t bytes = 1; bytes < 1 << 24; bytes *= 16)
        chosen[thread].push_back(
            selector.Choose(std::nullopt, {.collective = entry.collective, .bytes = bytes})->algorithm);
  });
  for (const auto& other : chosen) CHECK(other == chosen.front());
}

}  // namespace selector_test
}  // namespace rondo
