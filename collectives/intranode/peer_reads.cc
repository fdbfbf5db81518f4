#include "collectives/intranode/peer_reads.h"

#include <algorithm>

#include "base/bytes.h"

namespace rondo {

PeerReads::PeerReads(const IntranodeSegment& segment, const IntranodeOperation& operation, WindowCounts& counts)
    : segment_(segment),
      operation_(operation),
      counts_(counts),
      pieces_(static_cast<std::size_t>(segment.world_size())) {}

std::uint64_t PeerReads::InputBytesOf(Rank rank) const {
  const bool is_root = operation_.is_root(rank);
  switch (operation_.collective()) {
    case Collective::kAllReduce:
    case Collective::kAllGather: return operation_.bytes;
    case Collective::kBroadcast: return is_root ? operation_.bytes : 0;
    case Collective::kReduce:
    case Collective::kGather: return is_root ? 0 : operation_.bytes;
    case Collective::kScatter: return is_root ? operation_.block_at(operation_.world_size) : 0;
    default: return operation_.block_at(operation_.world_size);
  }
}

const std::byte* PeerReads::own_input() const {
  const bool is_in_own_block = operation_.in_place && operation_.collective() == Collective::kAllGather;
  return operation_.source() + (is_in_own_block ? operation_.block_at(operation_.rank) : 0);
}

void PeerReads::Start(bool by_shares, std::uint64_t window_bytes) {
  by_shares_ = by_shares;
  window_bytes_ = window_bytes;
  for (Rank r = 0; r < operation_.world_size; ++r) {
    Piece& piece = pieces_[static_cast<std::size_t>(r)];
    piece = {};
    ChoosePiece(r, piece);
  }
  ChooseFold();
  // All ranks use the number of windows of rank 0's share, which is the longest, so that the number is equal on all
  // ranks.
  const ByteRange all{0, operation_.bytes};
  windows_ = DivCeil(by_shares_ ? operation_.ShareOf(0, all).bytes : operation_.bytes, window_bytes_);
  folded_ = fold_.bytes == 0 && !by_shares_ ? windows_ : 0;
}

void PeerReads::ChoosePiece(Rank peer, Piece& piece) const {
  const Rank own = operation_.rank;
  const bool is_from_root = operation_.is_root(peer);
  const bool is_elsewhere = peer != own || !operation_.in_place;  // the block is not yet in its destination
  switch (operation_.collective()) {
    case Collective::kAllReduce: {
      if (peer == own || !by_shares_) break;
      const ByteRange share = operation_.ShareOf(peer, {0, operation_.bytes});
      piece = {.from = share.begin, .to = share.begin, .bytes = share.bytes};
      break;
    }
    case Collective::kBroadcast:
      if (is_from_root && is_elsewhere) piece.bytes = operation_.bytes;
      break;
    case Collective::kGather:
      if (!operation_.is_root(own)) break;
      [[fallthrough]];
    case Collective::kAllGather:
      if (is_elsewhere) piece = {.to = operation_.block_at(peer), .bytes = operation_.bytes};
      break;
    case Collective::kScatter:
      if (is_from_root && is_elsewhere) piece = {.from = operation_.block_at(own), .bytes = operation_.bytes};
      break;
    case Collective::kAllToAll:
      piece = {.from = operation_.block_at(own), .to = operation_.block_at(peer), .bytes = operation_.bytes};
      break;
    default: break;
  }
}

void PeerReads::ChooseFold() {
  const ByteRange all{0, operation_.bytes};
  const Rank own = operation_.rank;
  fold_ = {};
  fold_from_ = 0;
  switch (operation_.collective()) {
    case Collective::kAllReduce:
      fold_ = by_shares_ ? operation_.ShareOf(own, all) : all;
      fold_from_ = fold_.begin;
      break;
    case Collective::kReduce:
      if (operation_.is_root(own)) fold_ = all;
      break;
    case Collective::kReduceScatter:
      fold_ = {operation_.in_place ? operation_.block_at(own) : 0, operation_.bytes};
      fold_from_ = operation_.block_at(own);
      break;
    default: break;
  }
}

ByteRange PeerReads::WindowOf(const ByteRange& all, std::uint64_t window) const {
  const std::uint64_t at = std::min(window * window_bytes_, all.bytes);
  return {all.begin + at, std::min(window_bytes_, all.bytes - at)};
}

void PeerReads::OnFolded(std::uint64_t windows) {
  folded_ = windows;
  if (by_shares_) counts_.PublishFolded(folded_);
}

std::uint64_t PeerReads::MayTake(Rank peer, std::uint64_t max_windows) const {
  const Piece& of = piece(peer);
  if (of.bytes == 0 || (by_shares_ && !has_folded())) return 0;
  const std::uint64_t ready = by_shares_ ? counts_.FoldedBy(peer) : windows_;
  return std::min(ready - of.taken, max_windows);
}

ByteRange PeerReads::NextOfPiece(Rank peer, std::uint64_t windows) const {
  const Piece& of = piece(peer);
  const ByteRange all{of.from, of.bytes};
  const std::uint64_t begin = WindowOf(all, of.taken).begin;
  return {begin, WindowOf(all, of.taken + windows - 1).end() - begin};
}

bool PeerReads::IsDone() const {
  const auto is_taken = [&](const Piece& of) { return of.bytes == 0 || of.taken == windows_; };
  return has_folded() && std::all_of(pieces_.begin(), pieces_.end(), is_taken);
}

void PeerReads::End() {
  if (by_shares_) counts_.End(windows_);
}

bool PeerReads::WaitsFor(Rank peer) const {
  if (!has_folded()) return false;
  const Piece& of = piece(peer);
  return (of.bytes > 0 && of.taken < windows_ && MayTake(peer, 1) == 0) || segment_.HasWithdrawn(peer);
}

bool PeerReads::HasNews() const {
  if (!has_folded()) return true;
  bool waits = false;
  for (Rank r = 0; r < operation_.world_size; ++r) {
    if (MayTake(r, 1) > 0) return true;
    waits = waits || (piece(r).bytes > 0 && piece(r).taken < windows_);
  }
  return !waits && !segment_.AnyHasWithdrawn();
}

std::uint64_t PeerReads::BytesDone() const {
  if (windows_ == 0) return 0;  // a barrier in a graph has no windows
  std::uint64_t least = folded_;
  for (const Piece& of : pieces_)
    if (of.bytes > 0) least = std::min(least, of.taken);
  return least * operation_.bytes / windows_;
}

}  // namespace rondo
