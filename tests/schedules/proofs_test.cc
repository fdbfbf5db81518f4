// Every algorithm is proved correct, and has the costs that its paper states. All worlds up to 17 ranks are proved
// here, and all up to 33 ranks by `rondo verify`. Larger worlds are sampled.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "collectives/algorithms/formulas.h"
#include "collectives/algorithms/prove.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/grid.h"
#include "collectives/schedule/layout.h"
#include "collectives/schedule/project.h"
#include "collectives/schedule/verify.h"

namespace rondo {
namespace proofs_test {

Proof ProofOf(Collective collective, Algorithm algorithm, int world, bool in_place = true) {
  const AlgorithmEntry& entry = *FindAlgorithm(collective, algorithm);
  auto proof = ProveSchedule(entry, {.collective = collective,
                                     .algorithm = algorithm,
                                     .world_size = world,
                                     .in_place = in_place && HasInPlace(collective)});
  REQUIRE_MESSAGE(proof.has_value(), (proof ? "" : proof.error().ToString()));
  return *proof;
}

TEST_CASE(
    "every algorithm is proved for every world up to 17, every root, in place and out of place, plain and scaled") {
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    for (int world = 1; world <= 17; ++world) {
      const auto proved = ProveWorld(entry, world);
      CHECK_MESSAGE(proved.has_value(), (proved ? "" : proved.error().ToString()));
    }
  }
}

TEST_CASE("what the table says of operands is what the proofs find: no more, and no less") {
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    if (!Reduces(entry.collective)) {
      CHECK_FALSE(entry.traits.rank_order);
      CHECK_FALSE(entry.traits.left_fold);
      continue;
    }
    bool always_in_rank_order = true, always_left_fold = true;
    for (int world = 1; world <= 10; ++world) {
      for (const ScheduleKey& key : EveryKey(entry, world)) {
        const auto proof = ProveSchedule(entry, key);
        REQUIRE_MESSAGE(proof.has_value(), (proof ? "" : proof.error().ToString()));
        always_in_rank_order &= proof->in_rank_order;
        always_left_fold &= proof->left_fold;
      }
    }
    CHECK_MESSAGE(entry.traits.rank_order == always_in_rank_order, Name(entry.collective), " ", Name(entry.algorithm));
    CHECK_MESSAGE(entry.traits.left_fold == always_left_fold, Name(entry.collective), " ", Name(entry.algorithm));
  }
}

TEST_CASE("counts per block are served by every algorithm whose ranks handle no block that they cannot know") {
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    AlgorithmEntry pretends = entry;
    pretends.traits.needs_equal_counts = false;
    bool proved = true;
    for (int world = 1; world <= 9; ++world) proved &= ProveWorld(pretends, world).has_value();
    CHECK_MESSAGE(proved == !entry.traits.needs_equal_counts, Name(entry.collective), " ", Name(entry.algorithm));
  }
}

TEST_CASE(
    "a world of 200 ranks is proved at sampled chunks, ranks and lanes, and one of 1000 where not all pairs are "
    "connected") {
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    const bool all_pairs_connected = entry.algorithm == Algorithm::kPairwise || entry.algorithm == Algorithm::kDirect;
    const int world = all_pairs_connected ? 200 : 1000;
    std::vector<int> hosts;
    for (int rank = 0; rank < world; ++rank) hosts.push_back(rank / 8);
    const auto status = ProveSamples(entry, {.collective = entry.collective,
                                             .algorithm = entry.algorithm,
                                             .world_size = world,
                                             .root = HasRoot(entry.collective) ? world / 3 : 0,
                                             .in_place = HasInPlace(entry.collective),
                                             .hosts = entry.algorithm == Algorithm::kHierarchical ? &hosts : nullptr});
    CHECK_MESSAGE(status.has_value(), (status ? "" : status.error().ToString()));
  }
}

TEST_CASE("algorithms whose schedules stay small are proved whole in a world of 1000") {
  const Proof doubling = ProofOf(Collective::kAllReduce, Algorithm::kRecursiveDoubling, 1000);
  CHECK(doubling.rounds == 11);  // 9 rounds among 512 ranks, and 2 rounds for the other 488 ranks
  CHECK(doubling.max_peers == 10);
  const Proof tree = ProofOf(Collective::kAllReduce, Algorithm::kTree, 1000);
  CHECK(tree.rounds == 20);
  CHECK(tree.in_rank_order);
}

TEST_CASE("the ring sends 2 (P - 1) / P of the vector in 2 (P - 1) rounds and talks to two neighbours") {
  const Proof proof = ProofOf(Collective::kAllReduce, Algorithm::kRing, 8);
  CHECK(proof.rounds == 14);
  CHECK(proof.max_chunks_sent == 14);  // the vector has 8 chunks
  CHECK(proof.max_chunks_received == 14);
  CHECK(proof.max_peers == 2);
  CHECK_FALSE(proof.uses_scratch);
  CHECK_FALSE(proof.in_rank_order);
  CHECK(proof.order[0] == "(0+((((((1+2)+3)+4)+5)+6)+7))");
  CHECK(proof.order[1] == "((0+(((((2+3)+4)+5)+6)+7))+1)");
  CHECK(proof.order[7] == "(((((((0+1)+2)+3)+4)+5)+6)+7)");
}

TEST_CASE("recursive halving sends as little as the ring in a power-of-two world, in logarithmically many rounds") {
  const Proof proof = ProofOf(Collective::kAllReduce, Algorithm::kRecursiveHalving, 16);
  CHECK(proof.rounds == 8);
  CHECK(proof.max_chunks_sent == 30);  // the vector has 16 chunks
  CHECK(proof.max_peers == 4);
  CHECK_FALSE(proof.uses_scratch);
}

TEST_CASE("only an exchange of whole values needs scratch, and out of place its first round does not") {
  CHECK(ProofOf(Collective::kAllReduce, Algorithm::kRecursiveDoubling, 2).uses_scratch);
  CHECK_FALSE(ProofOf(Collective::kAllReduce, Algorithm::kRecursiveDoubling, 2, /*in_place=*/false).uses_scratch);
  CHECK(ProofOf(Collective::kAllReduce, Algorithm::kRecursiveDoubling, 4, /*in_place=*/false).uses_scratch);
  for (const Algorithm other : {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveHalving}) {
    for (int world = 1; world <= 9; ++world) CHECK_FALSE(ProofOf(Collective::kAllReduce, other, world).uses_scratch);
  }
}

TEST_CASE("where ranks fold, an odd one of the first stands to the right of its even neighbour") {
  CHECK(ProofOf(Collective::kAllReduce, Algorithm::kRecursiveDoubling, 6).order[0] == "(((0+1)+(2+3))+(4+5))");
  CHECK(ProofOf(Collective::kAllReduce, Algorithm::kTree, 6).order[0] == "(((0+1)+(2+3))+(4+5))");
  CHECK(ProofOf(Collective::kAllReduce, Algorithm::kRecursiveDoubling, 5).order[0] == "(((0+1)+2)+(3+4))");
  CHECK(ProofOf(Collective::kAllReduce, Algorithm::kTree, 5).order[0] == "(((0+1)+(2+3))+4)");
}

TEST_CASE("a world of one sends nothing") {
  for (const AlgorithmEntry& entry : AllAlgorithms()) {
    const Proof proof = ProofOf(entry.collective, entry.algorithm, 1, /*in_place=*/false);
    CHECK(proof.transfers == 0);
    CHECK(proof.rounds == 0);
  }
}

TEST_CASE("the formulas give the papers' figures") {
  const auto cost = [](Algorithm algorithm, int world) { return *PaperCost(Collective::kAllReduce, algorithm, world); };
  CHECK(cost(Algorithm::kRing, 64).rounds == 126);
  CHECK(cost(Algorithm::kRing, 64).sent.value() == doctest::Approx(1.96875));
  CHECK(cost(Algorithm::kTree, 64).rounds == 12);
  CHECK(cost(Algorithm::kRecursiveHalving, 64).rounds == 12);
  CHECK(cost(Algorithm::kRecursiveHalving, 64).sent.value() == doctest::Approx(1.96875));
  CHECK(cost(Algorithm::kRecursiveHalving, 65).rounds == 14);
  CHECK(cost(Algorithm::kRecursiveHalving, 65).sent.value() == doctest::Approx(2.96875));
  CHECK(cost(Algorithm::kRecursiveDoubling, 64).rounds == 6);
  CHECK(PaperCost(Collective::kBroadcast, Algorithm::kScatterAllGather, 64)->rounds == 69);
  CHECK(PaperCost(Collective::kBarrier, Algorithm::kDissemination, 65)->rounds == 7);
  CHECK_FALSE(PaperCost(Collective::kBarrier, Algorithm::kRing, 4).has_value());
}

TEST_CASE("a contribution goes through P - 1 additions in the ring, through ceil(log2 P) elsewhere") {
  CHECK(RoundingDepth(Algorithm::kRing, {.size = 17}) == 16);
  CHECK(RoundingDepth(Algorithm::kTree, {.size = 17}) == 5);
  CHECK(RoundingDepth(Algorithm::kRecursiveHalving, {.size = 16}) == 4);
  CHECK(RoundingDepth(Algorithm::kRecursiveDoubling, {.size = 1}) == 0);
}

TEST_CASE("reproducible sums: each collective that reduces has a left fold of few latencies and one of little data") {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
    bool quick = false, frugal = false;
    for (const AlgorithmEntry& entry : AllAlgorithms()) {
      if (entry.collective != collective || !entry.traits.left_fold) continue;
      quick |= entry.algorithm == Algorithm::kDirect;
      frugal |= PaperCost(collective, entry.algorithm, 16)->sent.value() <= 2;
    }
    CHECK(quick);
    CHECK(frugal);
  }
}

TEST_CASE("a binomial tree, a halving and a left fold give every root the same bits") {
  for (const Algorithm algorithm :
       {Algorithm::kTree, Algorithm::kRecursiveHalving, Algorithm::kChain, Algorithm::kDirect}) {
    const AlgorithmEntry& entry = *FindAlgorithm(Collective::kReduce, algorithm);
    std::set<std::vector<std::string>> orders;
    for (Rank root = 0; root < 11; ++root) {
      const auto proof = ProveSchedule(
          entry, {.collective = Collective::kReduce, .algorithm = algorithm, .world_size = 11, .root = root});
      REQUIRE(proof.has_value());
      orders.insert(proof->order);
    }
    CHECK_MESSAGE(orders.size() == 1, Name(algorithm));
  }
}

TEST_CASE(
    "on uneven hosts the ranks beyond the fewest per host own nothing, and hosts exchange as in a ring of hosts") {
  const AlgorithmEntry& entry = *FindAlgorithm(Collective::kAllReduce, Algorithm::kHierarchical);
  const std::vector<int> hosts{0, 0, 1, 1, 1};
  ScheduleKey key{.collective = entry.collective, .algorithm = entry.algorithm, .world_size = 5, .hosts = &hosts};
  const auto proof = ProveSchedule(entry, key);
  REQUIRE_MESSAGE(proof.has_value(), (proof ? "" : proof.error().ToString()));
  CHECK(proof->order == std::vector<std::string>(4, "((0+1)+((2+3)+4))"));
  std::uint32_t chunks_between_hosts = 0;
  for (const RankSchedule& rank : Build(entry, key).ranks) {
    for (const Step& step : rank.steps) {
      const bool leaves = step.kind == StepKind::kSend &&
                          hosts[static_cast<std::size_t>(rank.rank)] != hosts[static_cast<std::size_t>(step.peer)];
      if (leaves) chunks_between_hosts += step.chunks.count;
      CHECK_FALSE((rank.rank == 4 && step.kind == StepKind::kRecvReduce));
    }
  }
  CHECK(chunks_between_hosts == 8);  // each of four chunks crosses once to be combined, and its result returns once
}

TEST_CASE("two trees share the work: no rank sends more than two vectors, where the root of one tree sends log2 P") {
  for (const int world : {4, 5, 6, 7, 8, 16, 31, 32, 33}) {
    const Proof proof = ProofOf(Collective::kAllReduce, Algorithm::kDoubleTree, world);
    const AlgorithmCost cost = *PaperCost(Collective::kAllReduce, Algorithm::kDoubleTree, world);
    CHECK(proof.max_chunks_sent == 4);  // the vector has 2 chunks
    const bool power_of_two = (world & (world - 1)) == 0;
    if (power_of_two) CHECK(proof.rounds == cost.rounds);  // the bound is reached
  }
}

TEST_CASE("in a pairwise exchange a rank sends its next block when its partner's last one has come") {
  const AlgorithmEntry& entry = *FindAlgorithm(Collective::kAllToAll, Algorithm::kPairwise);
  const Schedule schedule =
      Build(entry, {.collective = entry.collective, .algorithm = entry.algorithm, .world_size = 5, .in_place = false});
  for (const RankSchedule& rank : schedule.ranks) {
    std::size_t blocks_sent = 0;
    for (const Step& step : rank.steps) {
      if (step.kind != StepKind::kSend || step.chunks.count == 0) continue;
      const auto is_signal = [&](const Dependency& dependency) {
        const Step& earlier = rank.steps[dependency.step];
        return earlier.kind == StepKind::kRecv && earlier.chunks.count == 0;
      };
      CHECK(std::any_of(step.dependencies.begin(), step.dependencies.end(), is_signal) == (blocks_sent > 0));
      ++blocks_sent;
    }
    CHECK(blocks_sent == 4);
  }
}

TEST_CASE("every algorithm of the table is found by what it serves, and nothing else is") {
  std::size_t found = 0;
  for (int c = 1; c <= static_cast<int>(Collective::kAllToAll); ++c) {
    const auto collective = static_cast<Collective>(c);
    CHECK(ParseCollective(Name(collective)) == collective);
    for (int a = 1; a <= static_cast<int>(Algorithm::kTwoShot); ++a) {
      const auto algorithm = static_cast<Algorithm>(a);
      CHECK(ParseAlgorithm(Name(algorithm)) == algorithm);
      const AlgorithmEntry* entry = FindAlgorithm(collective, algorithm);
      CHECK((entry != nullptr) == PaperCost(collective, algorithm, 4).has_value());
      if (entry == nullptr) continue;
      ++found;
      CHECK((entry->collective == collective && entry->algorithm == algorithm));
    }
  }
  CHECK(AllAlgorithms().size() == found);
  CHECK_FALSE(ParseAlgorithm("rings").has_value());
  CHECK_FALSE(ParseCollective("").has_value());
  CHECK(Name(static_cast<Algorithm>(99)) == "unknown");
}

TEST_CASE("a grid cuts any count into chunks without gap, overlap or a cut element, as evenly as its unit allows") {
  for (const std::uint64_t count : {0u, 1u, 2u, 5u, 16u, 17u, 1000u, 1023u, 65536u, 1000003u}) {
    for (const std::size_t element_bytes : {1u, 2u, 4u, 8u}) {
      for (const std::uint32_t chunks : {1u, 2u, 3u, 7u, 16u, 33u}) {
        const ChunkGrid grid(count, element_bytes, chunks);
        CHECK(grid.BeginElement(0) == 0);
        CHECK(grid.BeginElement(chunks) == count);
        const bool lines = count / chunks * element_bytes >= 16 * kLineBytes;
        std::set<std::uint64_t> lengths;
        for (std::uint32_t c = 0; c < chunks; ++c) {
          REQUIRE(grid.BeginElement(c) <= grid.BeginElement(c + 1));
          CHECK(grid.BeginByte(c) == grid.BeginElement(c) * element_bytes);
          if (lines) CHECK(grid.BeginByte(c) % kLineBytes == 0);
          if (c + 1 < chunks) lengths.insert(grid.BeginElement(c + 1) - grid.BeginElement(c));
        }
        if (!lengths.empty()) CHECK((*lengths.rbegin() - *lengths.begin()) * element_bytes <= (lines ? kLineBytes : 8));
        CHECK(lengths.size() <= 2);
      }
    }
  }
}

}  // namespace proofs_test
}  // namespace rondo
