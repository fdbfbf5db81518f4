// Computes in a second way which blocks a rank contributes, which it must have at the end, and which its buffers
// contain. Both results must be equal. Also checks the positions of blocks, element by element.
#include "collectives/schedule/layout.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "collectives/schedule/grid.h"

namespace rondo {
namespace layout_test {

using Blocks = std::vector<std::uint32_t>;

constexpr Collective kAll[] = {Collective::kAllReduce, Collective::kBroadcast, Collective::kBarrier,
                               Collective::kReduce,    Collective::kAllGather, Collective::kReduceScatter,
                               Collective::kGather,    Collective::kScatter,   Collective::kAllToAll};

Blocks List(const BlockSet& set) {
  Blocks blocks;
  for (std::uint32_t i = 0; i < set.count; ++i) blocks.push_back(set.first + i * set.stride);
  return blocks;
}

// Defines each collective block by block: whether `rank` contributes `block`, and whether it must have `block` at the
// end.
bool Brings(const ScheduleKey& key, Rank rank, int block) {
  switch (key.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter: return true;
    case Collective::kBroadcast:
    case Collective::kScatter: return rank == key.root;
    case Collective::kAllGather:
    case Collective::kGather: return block == rank;
    case Collective::kAllToAll: return block / key.world_size == rank;
    case Collective::kBarrier: return false;
  }
  return false;
}
bool EndsWith(const ScheduleKey& key, Rank rank, int block) {
  switch (key.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kAllGather: return true;
    case Collective::kReduce:
    case Collective::kGather: return rank == key.root;
    case Collective::kReduceScatter:
    case Collective::kScatter: return block == rank;
    case Collective::kAllToAll: return block % key.world_size == rank;
    case Collective::kBarrier: return false;
  }
  return false;
}

template <typename Function>
void ForEveryRank(Function function) {
  for (const Collective collective : kAll) {
    for (int world = 1; world <= 6; ++world) {
      for (Rank root = 0; root < (HasRoot(collective) ? world : 1); ++root) {
        for (const bool in_place : {false, true}) {
          for (Rank rank = 0; rank < world; ++rank) {
            CAPTURE(Name(collective));
            CAPTURE(world);
            CAPTURE(root);
            CAPTURE(in_place);
            CAPTURE(rank);
            function(ScheduleKey{.collective = collective, .world_size = world, .root = root, .in_place = in_place},
                     rank);
          }
        }
      }
    }
  }
}

TEST_CASE("every rank brings and owes the blocks that its collective is about, in ascending order") {
  ForEveryRank([](const ScheduleKey& key, Rank rank) {
    Blocks brought, owed;
    for (int block = 0; block < static_cast<int>(BlocksOf(key.collective, key.world_size)); ++block) {
      if (Brings(key, rank, block)) brought.push_back(static_cast<std::uint32_t>(block));
      if (EndsWith(key, rank, block)) owed.push_back(static_cast<std::uint32_t>(block));
    }
    CHECK(List(InputBlocks(key, rank)) == brought);
    CHECK(List(OutputBlocks(key, rank)) == owed);
    for (std::uint32_t block = 0; block < BlocksOf(key.collective, key.world_size); ++block) {
      CHECK(OutputBlocks(key, rank).Contains(block) == (std::count(owed.begin(), owed.end(), block) == 1));
    }
  });
}

TEST_CASE("out of place the buffers hold just that; in place one memory has room for both") {
  ForEveryRank([](const ScheduleKey& key, Rank rank) {
    const BlockSet input = InputBlocks(key, rank), output = OutputBlocks(key, rank);
    const BlockSet in_memory = Holds(key, rank, BufferId::kOutput);
    if (!InPlaceAt(key, rank)) {
      CHECK(Holds(key, rank, BufferId::kInput) == input);
      CHECK(in_memory == output);
      return;
    }
    CHECK(Holds(key, rank, BufferId::kInput).count == 0);
    CHECK(in_memory.count == std::max(input.count, output.count));
    for (const std::uint32_t block : List(input)) CHECK(in_memory.Contains(block));
    for (const std::uint32_t block : List(output)) CHECK(in_memory.Contains(block));
  });
}

TEST_CASE("in place is a matter of the root where only the root has both, and none of all_to_all") {
  const auto in_place = [](Collective collective, Rank rank) {
    return InPlaceAt({.collective = collective, .world_size = 3, .root = 1, .in_place = true}, rank);
  };
  for (const Collective collective : {Collective::kReduce, Collective::kGather, Collective::kScatter}) {
    CHECK(in_place(collective, 1));
    CHECK_FALSE(in_place(collective, 0));
  }
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kBroadcast, Collective::kAllGather, Collective::kReduceScatter}) {
    CHECK(in_place(collective, 0));
  }
  CHECK_FALSE(in_place(Collective::kAllToAll, 1));
  CHECK_FALSE(InPlaceAt({.collective = Collective::kAllReduce, .in_place = false}, 0));
}

// ---- the grid ----

TEST_CASE("blocks of one count follow each other, each cut like a vector of its own") {
  for (const std::uint64_t count : {0, 1, 5, 64, 1000}) {
    for (const std::uint32_t blocks : {1u, 3u, 9u}) {
      for (const std::uint32_t per_block : {1u, 2u, 7u}) {
        const BlockGrid grid(blocks, count, 4, per_block);
        const ChunkGrid block(count, 4, per_block);
        for (std::uint32_t c = 0; c < grid.chunks(); ++c) {
          CHECK(grid.BeginElement(c) == c / per_block * count + block.BeginElement(c % per_block));
        }
        CHECK(grid.BeginByte(grid.chunks()) == blocks * count * 4);
      }
    }
  }
}

TEST_CASE("blocks with counts of their own lie where the counts say") {
  const std::vector<std::uint64_t> begins{0, 10, 10, 117, 120};
  const BlockGrid grid(4, {.begins = begins}, 0, 8, 3);
  for (std::uint32_t block = 0; block < 4; ++block) {
    CHECK(grid.BlockBegin(block) == begins[block]);
    const ChunkGrid inner(begins[block + 1] - begins[block], 8, 3);
    for (std::uint32_t i = 0; i < 3; ++i) {
      CHECK(grid.BeginElement(3 * block + i) == begins[block] + inner.BeginElement(i));
    }
  }
  CHECK(grid.BeginByte(12) == 120 * 8);
}

TEST_CASE("the positions of all_to_all are those of a table in which a rank knows its row and its column only") {
  Random random(3);
  for (int world = 1; world <= 5; ++world) {
    for (Rank rank = 0; rank < world; ++rank) {
      const auto p = static_cast<std::uint32_t>(world), me = static_cast<std::uint32_t>(rank);
      std::vector<std::uint64_t> table(p * p, 0), sent{0}, received{0};
      for (std::uint32_t block = 0; block < p * p; ++block) {
        if (block / p == me || block % p == me) table[block] = random.Below(4) * 10;
      }
      for (std::uint32_t peer = 0; peer < p; ++peer) {
        sent.push_back(sent.back() + table[me * p + peer]);
        received.push_back(received.back() + table[peer * p + me]);
      }
      const BlockGrid grid(p * p, {.sent = sent, .received = received}, rank, 4, 1);
      std::uint64_t begin = 0;
      for (std::uint32_t block = 0; block < p * p; ++block) {
        CAPTURE(block);
        CHECK(grid.BeginElement(block) == begin);
        begin += table[block];
      }
      CHECK(grid.BeginElement(p * p) == begin);
      const BlockSet input{me * p, 1, p}, output{me, p, p};
      CHECK(grid.PackedElements(input) == sent.back());
      CHECK(grid.PackedElements(output) == received.back());
      for (std::uint32_t peer = 0; peer < p; ++peer) {
        CHECK(grid.PackedElement(input, me * p + peer) == sent[peer]);
        CHECK(grid.PackedElement(output, peer * p + me) == received[peer]);
      }
    }
  }
}

TEST_CASE("a buffer that holds every third block has them one behind the other") {
  const BlockGrid grid(9, 100, 4, 2);
  const BlockSet column{1, 3, 3};
  CHECK(grid.PackedElement(column, 1) == 0);
  CHECK(grid.PackedElement(column, 4) == 100);
  CHECK(grid.PackedElement(column, 7) == 200);
  CHECK(grid.PackedElements(column) == 300);
  CHECK(grid.PackedElement({3, 1, 3}, 5) == 200);
}

}  // namespace layout_test
}  // namespace rondo
