// Tests which peers' memory a rank reduces and copies, for each collective, and when the rank may continue.
#include "collectives/intranode/peer_reads.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "tests/engine/plain_shared_segment.h"

namespace rondo {
namespace peer_reads_test {

constexpr int kRanks = 3;
constexpr std::uint64_t kBytes = 1000;

// The state of one rank in an operation.
class RankReads {
 public:
  RankReads(PlainSharedSegment& shared_segment, Rank rank, Collective collective, bool in_place = false, Rank root = 1)
      : segment_(rank, kRanks, shared_segment),
        operation_{.rank = rank,
                   .world_size = kRanks,
                   .descriptor = {.collective = collective, .root = root},
                   .bytes = kBytes,
                   .in_place = in_place} {}

  PeerReads& Start(bool by_shares = false, std::uint64_t window_bytes = 256) {
    reads_.Start(by_shares, window_bytes);
    return reads_;
  }
  PeerReads& reads() { return reads_; }
  const IntranodeSegment& segment() const { return segment_; }

 private:
  IntranodeSegment segment_;
  IntranodeOperation operation_;
  WindowCounts counts_{segment_};
  PeerReads reads_{segment_, operation_, counts_};
};

struct Row {
  Collective collective;
  bool in_place;
  Rank rank;  // rank 1 is the root
  std::vector<PeerReads::Piece> pieces;
  ByteRange fold;
  std::uint64_t fold_from;
};

TEST_CASE("each collective folds and copies what its result needs, and nothing that is in its place") {
  const PeerReads::Piece none;
  const auto piece = [](std::uint64_t from, std::uint64_t to) {
    return PeerReads::Piece{.from = from, .to = to, .bytes = kBytes};
  };
  const std::vector<Row> rows{
      {Collective::kAllReduce, false, 0, {none, none, none}, {0, kBytes}, 0},
      {Collective::kReduce, false, 0, {none, none, none}, {0, 0}, 0},
      {Collective::kReduce, false, 1, {none, none, none}, {0, kBytes}, 0},
      {Collective::kReduceScatter, false, 2, {none, none, none}, {0, kBytes}, 2000},
      {Collective::kReduceScatter, true, 2, {none, none, none}, {2000, kBytes}, 2000},
      {Collective::kBroadcast, false, 0, {none, piece(0, 0), none}, {0, 0}, 0},
      {Collective::kBroadcast, true, 1, {none, none, none}, {0, 0}, 0},
      {Collective::kAllGather, false, 2, {piece(0, 0), piece(0, 1000), piece(0, 2000)}, {0, 0}, 0},
      {Collective::kAllGather, true, 2, {piece(0, 0), piece(0, 1000), none}, {0, 0}, 0},
      {Collective::kGather, true, 0, {none, none, none}, {0, 0}, 0},
      {Collective::kGather, true, 1, {piece(0, 0), none, piece(0, 2000)}, {0, 0}, 0},
      {Collective::kScatter, false, 2, {none, piece(2000, 0), none}, {0, 0}, 0},
      {Collective::kScatter, true, 1, {none, none, none}, {0, 0}, 0},
      {Collective::kAllToAll, false, 1, {piece(1000, 0), piece(1000, 1000), piece(1000, 2000)}, {0, 0}, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(Name(row.collective));
    CAPTURE(row.in_place);
    CAPTURE(row.rank);
    PlainSharedSegment shared_segment(kRanks, 4096);
    RankReads rank(shared_segment, row.rank, row.collective, row.in_place);
    const PeerReads& reads = rank.Start();
    for (Rank r = 0; r < kRanks; ++r) {
      const PeerReads::Piece& expected = row.pieces[static_cast<std::size_t>(r)];
      CHECK(reads.piece(r).bytes == expected.bytes);
      CHECK(reads.piece(r).from == expected.from);
      CHECK(reads.piece(r).to == expected.to);
    }
    CHECK(reads.fold().bytes == row.fold.bytes);
    CHECK(reads.fold().begin == row.fold.begin);
    CHECK(reads.fold_from() == row.fold_from);
    CHECK(reads.has_folded() == (row.fold.bytes == 0));
  }
}

TEST_CASE("by shares every byte of an all_reduce is folded by one rank and copied by all others") {
  PlainSharedSegment shared_segment(kRanks, 4096);
  std::vector<int> folded(kBytes), copied(kBytes);
  for (Rank r = 0; r < kRanks; ++r) {
    RankReads rank(shared_segment, r, Collective::kAllReduce);
    const PeerReads& reads = rank.Start(/*by_shares=*/true);
    for (std::uint64_t i = 0; i < reads.fold().bytes; ++i) ++folded[reads.fold().begin + i];
    for (Rank peer = 0; peer < kRanks; ++peer)
      for (std::uint64_t i = 0; i < reads.piece(peer).bytes; ++i) ++copied[reads.piece(peer).to + i];
  }
  CHECK(folded == std::vector<int>(kBytes, 1));
  CHECK(copied == std::vector<int>(kBytes, kRanks - 1));
}

TEST_CASE("windows of a piece are ready as its peer folds them, and this rank takes none before its own share") {
  PlainSharedSegment shared_segment(kRanks, 4096);
  RankReads own(shared_segment, 0, Collective::kAllReduce), peer(shared_segment, 1, Collective::kAllReduce);
  PeerReads& reads = own.Start(/*by_shares=*/true, 128);  // each share has three windows
  PeerReads& theirs = peer.Start(/*by_shares=*/true, 128);
  theirs.OnFoldedWindow();
  CHECK(reads.MayTake(1, 8) == 0);
  CHECK(!reads.WaitsFor(1));
  reads.OnFoldedAll();
  CHECK(reads.MayTake(1, 8) == 1);
  CHECK(reads.WaitsFor(2));
  CHECK(reads.HasNews());
  CHECK(reads.NextOfPiece(1, 1).begin == 384);
  reads.OnTaken(1, 1);
  CHECK(reads.WaitsFor(1));
  CHECK(!reads.HasNews());
  CHECK(reads.BytesDone() == 0);
  theirs.OnFoldedAll();
  CHECK(reads.MayTake(1, 8) == 2);
  CHECK(reads.MayTake(1, 1) == 1);
  CHECK(reads.NextOfPiece(1, 2).bytes == 256);
}

TEST_CASE("a rank that has taken everything waits for the peers that have withdrawn their memory") {
  PlainSharedSegment shared_segment(kRanks, 4096);
  RankReads own(shared_segment, 0, Collective::kBroadcast), root(shared_segment, 1, Collective::kBroadcast);
  PeerReads& reads = own.Start();
  reads.OnTaken(1, reads.MayTake(1, 8));
  CHECK(reads.IsDone());
  CHECK(reads.HasNews());
  root.segment().Withdraw();
  CHECK(reads.WaitsFor(1));
  CHECK(!reads.HasNews());
}

}  // namespace peer_reads_test
}  // namespace rondo
