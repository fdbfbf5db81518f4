// Frames with checksums: results are the same as without checksums, and no rank accepts a wrong number, whichever bit
// flips in transit. Frames are short, so that transfers need many of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/algorithms/table.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/slices.h"
#include "collectives/framing/frame_check.h"
#include "tests/engine/modes.h"
#include "tests/engine/world.h"
#include "tests/support/flipping.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace checksums_test {

WorldOptions Checked(const Mode& mode, int ranks) {
  return {.ranks = ranks,
          .network = mode.network,
          .late_mover = mode.late_mover,
          .frame_bytes = 128,
          .windows_from_bytes = 64,
          .checksums = true};
}

// ---- without damage ----

TEST_CASE("with checksums every algorithm gives every rank the result in every awkward mode") {
  Sample sample(5);
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    for (const int ranks : {1, 2, 3, 5}) {
      if (!sample.Takes()) continue;
      EngineWorld world(Checked(mode, ranks));
      Rank root = 0;
      for (const AlgorithmEntry& entry : AllAlgorithms()) {
        for (const bool in_place : {true, false}) {
          if (in_place && !HasInPlace(entry.collective)) continue;
          for (const std::uint64_t count : {0, 1, 15, 32, 257}) {
            if (entry.collective == Collective::kBarrier && count > 0) continue;
            root = HasRoot(entry.collective) ? (root + 1) % ranks : 0;
            world.Expect({.collective = entry.collective,
                          .algorithm = entry.algorithm,
                          .count = count,
                          .root = root,
                          .in_place = in_place});
          }
        }
      }
    }
  }
}

TEST_CASE("averages, scaled sums and blocks of different lengths are verified and right, too") {
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    EngineWorld world(Checked(mode, 3));
    for (const AlgorithmEntry& entry : AllAlgorithms()) {
      Case c{.collective = entry.collective, .algorithm = entry.algorithm, .count = 133, .in_place = false};
      if (Reduces(entry.collective)) {
        c.op = ReduceOp::kAvg;
        world.Expect(c);
        c.op = ReduceOp::kPremulSum;
        c.type = DataType::kFloat32;
        world.Expect(c);
      } else if (BlocksOf(entry.collective, 2) > 1 && !entry.traits.needs_equal_counts &&
                 OutputBlocks({.collective = entry.collective}, 0).count > 0) {
        for (std::uint32_t block = 0; block < BlocksOf(entry.collective, 3); ++block)
          c.block_counts.push_back(block % 4 == 1 ? 0 : 37 * block);
        world.Expect(c);
      }
    }
  }
}

TEST_CASE("slices are those without checksums, though their frames are shorter") {
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    WorldOptions options = Checked(mode, 3);
    options.frame_bytes = kLineBytes;
    options.slices = true;
    EngineWorld world(options);
    for (const AlgorithmEntry& entry : AllAlgorithms()) {
      if (!entry.traits.in_slices) continue;
      const std::uint64_t least = kLeastSlices * ChunksOf(entry, {.size = 3}) * kLineBytes / 4;
      for (const std::uint64_t count : {least, least + 1, 2 * least - 1})
        world.Expect({.algorithm = entry.algorithm, .count = count});
    }
  }
}

TEST_CASE("a payload is bounded however long frames may be without checksums") {
  FlippedBit never{.from = 0, .to = 1, .offset = UINT64_MAX};
  EngineWorld world({.ranks = 2, .checksums = true, .flipped = &never});
  constexpr std::uint64_t kBytes = 4 * 1'000'003;
  world.Expect({.collective = Collective::kBroadcast, .algorithm = Algorithm::kTree, .count = kBytes / 4});
  const std::uint64_t full = kBytes / kMaxCheckedPayload, rest = kBytes % kMaxCheckedPayload;
  CHECK(never.stream_bytes == full * (kMaxCheckedPayload + 2 * kLineBytes) + kLineBytes + rest + CheckedTailOf(rest));
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kRecursiveDoubling, Algorithm::kTree})
    world.Expect({.algorithm = algorithm, .count = 1'000'003});
}

// ---- with damage ----

// One case for each way in which bytes are received: unchanged, reduced (in and out of place), several small transfers
// in one write, and headers alone. In the first three the receiver forwards the bytes.
std::vector<Case> ReceivePaths() {
  return {{.algorithm = Algorithm::kRing, .count = 70},
          {.algorithm = Algorithm::kRing, .count = 70, .in_place = false, .op = ReduceOp::kAvg},
          {.algorithm = Algorithm::kTree, .count = 40, .in_place = false},
          {.algorithm = Algorithm::kTwoShot, .count = 50},
          {.collective = Collective::kBroadcast, .algorithm = Algorithm::kChain, .count = 90},
          {.collective = Collective::kAllGather, .algorithm = Algorithm::kRing, .count = 20},
          {.collective = Collective::kAllToAll, .algorithm = Algorithm::kBruck, .count = 5, .in_place = false},
          {.collective = Collective::kAllToAll, .algorithm = Algorithm::kPairwise, .count = 5, .in_place = false},
          {.collective = Collective::kBarrier, .algorithm = Algorithm::kDissemination}};
}

// The number of bytes that rank `from` sends to rank `to` in the case `c`; 0: none.
std::uint64_t StreamLength(WorldOptions options, const Case& c, Rank from, Rank to) {
  FlippedBit never{.from = from, .to = to, .offset = UINT64_MAX};
  options.flipped = &never;
  EngineWorld(options).Expect(c);
  return never.stream_bytes;
}

struct Pair {
  Rank from, to;
};

// The outcome on each rank if one bit is flipped.
std::vector<EngineWorld::Outcome> Flip(WorldOptions options, const Case& c, Pair pair, std::uint64_t offset,
                                       unsigned bit_of_byte) {
  FlippedBit bit{.from = pair.from, .to = pair.to, .offset = offset};
  bit.mask = static_cast<unsigned char>(1u << bit_of_byte);
  options.flipped = &bit;
  options.seed = offset + 1;
  EngineWorld world(options);
  std::vector<EngineWorld::Outcome> outcomes = world.Attempt(c);
  CHECK(bit.fired == 1);
  return outcomes;
}

void ExpectFound(const std::vector<EngineWorld::Outcome>& outcomes, Pair pair) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    CAPTURE(rank);
    const EngineWorld::Outcome& outcome = outcomes[rank];
    if (rank == static_cast<std::size_t>(pair.to)) {
      CHECK_FALSE(outcome.complete);
      REQUIRE(outcome.error);
      CHECK(outcome.error->code() == ErrorCode::kCorrupt);
      CHECK(outcome.error->culprit() == pair.from);
    } else {
      // This rank does not need the damaged bytes and has the correct result, or it waits for the rank that found the
      // damage.
      CHECK_FALSE(outcome.error);
      CHECK((!outcome.complete || outcome.right));
    }
  }
}

TEST_CASE("wherever in a stream one bit flips, its receiver finds it and no rank has a wrong result") {
  int flips = 0;
  for (const Case& c : ReceivePaths()) {
    CAPTURE(Name(c.collective));
    CAPTURE(Name(c.algorithm));
    const WorldOptions options = Checked({"plain", {}}, 3);
    for (const Pair pair : {Pair{0, 1}, Pair{1, 0}, Pair{2, 0}}) {
      CAPTURE(pair.from);
      CAPTURE(pair.to);
      const std::uint64_t length = StreamLength(options, c, pair.from, pair.to);
      for (std::uint64_t offset = 0; offset < length; offset += Every(5)) {
        CAPTURE(offset);
        ExpectFound(Flip(options, c, pair, offset, offset % 8), pair);
        ++flips;
      }
    }
  }
  CHECK(flips > 5000 / Every(5));
}

// Positions of every field of a header, the ends of a payload, its padding, and its checksum, in the first frames and
// in the last one.
std::vector<std::uint64_t> Positions(std::uint64_t length) {
  std::vector<std::uint64_t> found;
  for (const std::uint64_t at : {0, 2, 3, 4, 8, 16, 24, 28, 32, 40, 48, 52, 53, 54, 55, 56, 63, 64, 65, 83, 84, 127})
    if (at < length) found.push_back(at);
  for (std::uint64_t at = 128; at < length; at += 29) found.push_back(at);
  for (const std::uint64_t before_end : {1, 4, 5, 64, 65, 128})
    if (before_end <= length) found.push_back(length - before_end);
  return found;
}

TEST_CASE("whichever way the bytes come and whatever moves them, damage is found before any step uses it") {
  int lent = 0, flips = 0;
  Sample sample(5);
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    for (const Case& c : ReceivePaths()) {
      CAPTURE(Name(c.collective));
      CAPTURE(Name(c.algorithm));
      const WorldOptions options = Checked(mode, 3);
      for (const Pair pair : {Pair{0, 1}, Pair{2, 0}}) {
        CAPTURE(pair.from);
        const std::uint64_t length = StreamLength(options, c, pair.from, pair.to);
        for (const std::uint64_t offset : Positions(length)) {
          if (!sample.Takes()) continue;
          CAPTURE(offset);
          ExpectFound(Flip(options, c, pair, offset, offset % 8), pair);
          ++flips;
        }
        lent += mode.network.reluctant && length > 0;
      }
    }
  }
  CHECK(lent > 0);
  CHECK(flips > 2000 / Every(5));
}

TEST_CASE("without checksums the same flips give wrong results that no rank notices") {
  for (const Mode& mode : AwkwardModes()) {
    CAPTURE(mode.name);
    for (const Case& c : ReceivePaths()) {
      if (c.collective == Collective::kBarrier) continue;
      CAPTURE(Name(c.collective));
      CAPTURE(Name(c.algorithm));
      WorldOptions options = Checked(mode, 3);
      options.checksums = false;
      int wrong = 0;
      for (const Pair pair : {Pair{0, 1}, Pair{1, 0}, Pair{2, 0}}) {
        if (StreamLength(options, c, pair.from, pair.to) == 0) continue;
        // The flipped bit is in the first byte of the first payload. An average must not round it away.
        for (const EngineWorld::Outcome& outcome : Flip(options, c, pair, kFrameHeaderBytes, 6)) {
          CHECK_FALSE(outcome.error);
          wrong += outcome.complete && !outcome.right;
        }
      }
      CHECK(wrong > 0);
    }
  }
}

TEST_CASE("the error names peer, lane, frame, place and both checksums") {
  const WorldOptions options = Checked({"plain", {}}, 2);
  const Case c{.collective = Collective::kBroadcast, .algorithm = Algorithm::kTree, .count = 100};
  const auto text = [&](std::uint64_t offset) { return Flip(options, c, {0, 1}, offset, 0)[1].error->ToString(); };
  // The second frame, of 128 bytes, begins at offset 256.
  const std::string header = text(256 + 24);
  CHECK(header.find("corrupt: a frame from rank 0 arrived damaged on lane 0, at stream offset 256, in its header") ==
        0);
  const std::string payload = text(256 + 64);
  CHECK(payload.find("at stream offset 256, in 128 bytes at 128 of transfer 0: checksum 0x") != std::string::npos);
  CHECK(payload.find(" expected, 0x") != std::string::npos);
  CHECK(payload.find(" found; caused by rank 0") != std::string::npos);
}

TEST_CASE("ranks that disagree get that error, not one of damaged bytes") {
  EngineWorld world(Checked({"plain", {}}, 4));
  std::vector<std::byte> memory(4096);
  const auto at = [&](Rank r) { return memory.data() + 1024 * r; };
  // Rank 1's broadcast sends to ranks that expect nothing from rank 1 in their all-reduce.
  world.NextSequence();
  for (const Rank r : {0, 2, 3}) world.StartOne(r, {.algorithm = Algorithm::kTree, .count = 4}, at(r), at(r));
  world.StartOne(1, {.collective = Collective::kBroadcast, .algorithm = Algorithm::kTree, .count = 4, .root = 1}, at(1),
                 at(1));
  std::optional<Error> error;
  for (int i = 0; i < 100 && !error; ++i)
    for (Rank r = 0; r < 4 && !error; ++r) {
      if (auto progress = world.PollOne(r); !progress) error = progress.error();
      if (!error) error = world.engine(r).FindMismatchedPeer();
    }
  REQUIRE(error);
  CHECK(error->code() == ErrorCode::kMismatch);
  CHECK(error->message().find("broadcast int32 x 4 from rank 1") != std::string::npos);
}

}  // namespace checksums_test
}  // namespace rondo
