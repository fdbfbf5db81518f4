// Calls every collective through the public interface, with every algorithm that supports it, and compares the results
// with the collective's definition (plain.h). The tests cover all small worlds, roots and placements, and even, uneven
// and zero counts, on lanes that behave in every allowed way.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "collectives/algorithms/table.h"
#include "collectives/model/selector.h"
#include "tests/communicator/plain.h"
#include "tests/support/ranks.h"

namespace rondo {
namespace collectives_test {

using plain::Case;
using plain::Counts;

constexpr std::array kCollectives{
    Collective::kAllReduce,     Collective::kReduce, Collective::kBroadcast, Collective::kAllGather,
    Collective::kReduceScatter, Collective::kGather, Collective::kScatter,   Collective::kAllToAll,
};

// The counts to try: even ones for the plain form, uneven ones (some of them zero) for the ...V form. `few`: fewer
// counts, for tests that vary the lanes.
std::vector<Case> CasesOf(Collective collective, int world, bool few = false) {
  const auto ranks = static_cast<std::size_t>(world);
  Counts uneven, one_only(ranks, 0), rising;
  for (std::size_t r = 0; r < ranks; ++r) {
    uneven.push_back(r % 3 == 1 ? 0 : 5 + 11 * r);
    rising.push_back(100 * r);
  }
  one_only.back() = 77;
  std::vector<Case> cases;
  std::vector<std::optional<Algorithm>> algorithms{std::nullopt};
  for (const AlgorithmEntry& entry : AllAlgorithms())
    if (entry.collective == collective) algorithms.emplace_back(entry.algorithm);
  for (const auto& algorithm : algorithms) {
    Case c;
    c.collective = collective;
    c.algorithm = algorithm;
    for (c.root = 0; c.root < (HasRoot(collective) ? world : 1); ++c.root) {
      for (const bool in_place : {false, true}) {
        c.in_place = in_place;
        if (in_place && !HasInPlace(collective)) continue;
        c.varying = false;
        for (const std::uint64_t count : {0u, 1u, 3u, 257u}) {
          if (few && count != 257) continue;
          c.counts = Counts(ranks, count);
          cases.push_back(c);
        }
        if (BlocksOf(collective, 2) == 1) continue;
        if (algorithm && FindAlgorithm(collective, *algorithm)->traits.needs_equal_counts) continue;
        c.varying = true;
        for (const Counts& counts : {uneven, one_only, rising, Counts(ranks, 0), Counts(ranks, 4)}) {
          if (few && counts != rising) continue;
          c.counts = counts;
          cases.push_back(c);
        }
      }
    }
  }
  return cases;
}

std::string Run(Communicator& communicator, const Case& c) {
  plain::Buffers buffers(c, communicator.rank(), communicator.world_size());
  const Status status =
      plain::Issue(communicator, c, buffers.in(), buffers.out(), DataType::kInt64, ReduceOp::kSum).Wait();
  if (!status) return TextOf(status);
  return buffers.Wrong(c, communicator.rank(), communicator.world_size());
}

void RunEverything(int world, const InprocOptions& options, bool few = false, std::uint32_t rails = 1) {
  CAPTURE(world);
  InprocNetwork network(world, options);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        for (const Collective collective : kCollectives) {
          for (const Case& c : CasesOf(collective, communicator.world_size(), few)) {
            const std::string wrong = Run(communicator, c);
            if (wrong.empty()) continue;
            FAIL_CHECK(plain::Describe(c), ": ", wrong);
            return;
          }
        }
        CHECK(TextOf(communicator.Close()) == "ok");
      },
      [&](CommunicatorOptions& communicator) {
        communicator.frame_bytes = 512;  // so that there are many frames
        communicator.windows_from_bytes = 256;
        communicator.rails = rails;
        communicator.least_rail_bytes = 64;
      });
}

TEST_CASE("every collective gives what its definition says, by every algorithm, in every small world") {
  for (const int world : {1, 2, 3, 4, 5, 7, 8}) RunEverything(world, {});
}

TEST_CASE("so it does on lanes that deliver in pieces, release late and open slowly") {
  for (const int world : {2, 3, 5})
    RunEverything(world, {.ring_bytes = 1024, .late_release = true, .slice_bytes = 100, .slow_connect_polls = 3},
                  /*few=*/true);
}

TEST_CASE("so it does on lanes that lend the sender's memory, push, do both, and refuse windows") {
  for (const int world : {2, 3, 4}) {
    RunEverything(world, {.reluctant = true}, /*few=*/true);
    RunEverything(world, {.push = true, .refuse_windows = 0.3}, /*few=*/true);
    RunEverything(world, {.reluctant = true, .push = true}, /*few=*/true);
  }
}

TEST_CASE("so it does on several rails") {
  for (const int world : {1, 2, 3, 5}) RunEverything(world, {}, /*few=*/false, /*rails=*/3);
  RunEverything(4, {.late_release = true, .slice_bytes = 100, .push = true, .refuse_windows = 0.3}, /*few=*/true, 2);
}

TEST_CASE("asynchronous operations of all kinds, issued together, happen one after the other") {
  for (const int world : {2, 3, 5}) {
    InprocNetwork network(world);
    OnRanks(network, [&](Communicator& communicator) {
      std::vector<Case> cases;
      for (const Collective collective : kCollectives)
        for (const Case& c : CasesOf(collective, world))
          if (!c.algorithm && c.root == 0) cases.push_back(c);
      std::vector<plain::Buffers> buffers;
      for (const Case& c : cases) buffers.emplace_back(c, communicator.rank(), world);
      std::vector<Work> works;
      // A ...V call copies its counts, so the counts are destroyed as soon as the call has returned.
      for (std::size_t i = 0; i < cases.size(); ++i)
        works.push_back(
            plain::Issue(communicator, cases[i], buffers[i].in(), buffers[i].out(), DataType::kInt64, ReduceOp::kSum));
      for (std::size_t i = 0; i < cases.size(); ++i) {
        CHECK(works[i].Wait());
        const std::string wrong = buffers[i].Wrong(cases[i], communicator.rank(), world);
        CHECK_MESSAGE(wrong.empty(), plain::Describe(cases[i]), ": ", wrong);
      }
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("the free choice serves every call there can be") {
  for (const Collective collective : kCollectives) {
    for (const int world : {1, 2, 3, 8, 100}) {
      const Selector selector(DefaultProfile(), Topology::OneHost(world, 4));
      for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{100'000}, std::uint64_t{1} << 40}) {
        for (int bits = 0; bits < 8; ++bits) {
          const Call call{.collective = collective,
                          .bytes = bytes,
                          .reproducible = (bits & 1) != 0,
                          .commutative = (bits & 2) == 0,
                          .equal_counts = (bits & 4) == 0 || BlocksOf(collective, 2) == 1};
          const auto selection = selector.Choose(std::nullopt, call);
          CAPTURE(std::string(Name(collective)));
          CAPTURE(bits);
          REQUIRE(selection);
          CHECK(!Unfit(*FindAlgorithm(collective, selection->algorithm), call));
        }
      }
    }
  }
}

}  // namespace collectives_test
}  // namespace rondo
