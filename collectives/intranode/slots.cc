#include "collectives/intranode/slots.h"

#include <algorithm>

#include "base/bytes.h"

namespace rondo {
namespace {

// Every rank reduces all slots itself if it then reads at most this many bytes of other ranks. For more bytes it is
// faster if each rank reduces a share, although this takes a second round.
constexpr std::uint64_t kFoldByAllBytes = 16 * 1024;
// The root of a broadcast writes a window while other ranks read the previous one, so even a short vector is cut into
// several windows.
constexpr std::uint64_t kBroadcastWindows = 4;
constexpr std::uint64_t kMinBroadcastWindow = 16 * 1024;

// Whether the collective folds the vectors of all ranks into one vector.
bool Folds(Collective collective) { return collective == Collective::kAllReduce || collective == Collective::kReduce; }

}  // namespace

SlotsStrategy::SlotsStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation, MoveStreams& moves)
    : segment_(segment),
      operation_(operation),
      moves_(moves),
      piece_bytes_(segment.slot_bytes() / static_cast<std::uint64_t>(segment.world_size()) / kLineBytes * kLineBytes),
      fold_by_all_bytes_(
          std::min(segment.slot_bytes(), kFoldByAllBytes / static_cast<std::uint64_t>(segment.world_size() - 1))) {}

void SlotsStrategy::Start() {
  const std::uint64_t bytes = operation_.bytes;
  std::uint64_t max_window = segment_.slot_bytes();
  std::uint64_t in_slot = bytes;
  layout_ = Layout::kWhole;
  switch (operation_.collective()) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      if (bytes > fold_by_all_bytes_) layout_ = Layout::kShares;
      break;
    case Collective::kReduceScatter:
    case Collective::kScatter:
    case Collective::kAllToAll:
      max_window = piece_bytes_;
      in_slot = std::min(bytes, max_window) * static_cast<std::uint64_t>(operation_.world_size);
      break;
    case Collective::kBroadcast:
      max_window = std::min(max_window, std::max(kMinBroadcastWindow, RoundUp(bytes / kBroadcastWindows, kLineBytes)));
      break;
    default: break;
  }
  std::uint64_t windows = 1;
  window_bytes_ = RoundUp(bytes, kLineBytes);
  if (bytes > max_window) {
    // The windows have equal length, in whole cache lines and so in whole elements.
    window_bytes_ = RoundUp(DivCeil(bytes, DivCeil(bytes, max_window)), kLineBytes);
    windows = DivCeil(bytes, window_bytes_);
  }
  rounds_ = layout_ == Layout::kShares ? 2 * windows : windows;
  if (rounds_ == 1 && in_slot <= IntranodeSegment::kInlineBytes) layout_ = Layout::kInline;
  reads_own_slot_ = ReadsOwnSlot();
  index_ = 0;
  window_ = Window();
}

SlotRounds::Wanted SlotsStrategy::wanted() const {
  using Wanted = SlotRounds::Wanted;
  if (is_share_round()) return Wanted::kAllTogether;
  const bool is_root = operation_.is_root(operation_.rank);
  switch (operation_.collective()) {
    case Collective::kReduce:
    case Collective::kGather: return is_root ? Wanted::kAll : Wanted::kNone;
    case Collective::kBroadcast:
    case Collective::kScatter: return Wanted::kRoot;
    default: return Wanted::kAll;
  }
}

ByteRange SlotsStrategy::Window() const {
  const std::uint64_t begin = (layout_ == Layout::kShares ? index_ / 2 : index_) * window_bytes_;
  return {begin, std::min(window_bytes_, operation_.bytes - begin)};
}

std::uint64_t SlotsStrategy::PieceAt(Rank rank) const {
  return static_cast<std::uint64_t>(rank) *
         (layout_ == Layout::kInline ? window_.bytes : RoundUp(window_.bytes, kLineBytes));
}

bool SlotsStrategy::ReadsOwnSlot() const {
  if (operation_.scales) return true;
  // In place with two or more lower ranks, reducing their operands overwrites this rank's operands before these are
  // used.
  return operation_.in_place && operation_.rank >= 2 &&
         (operation_.collective() == Collective::kReduceScatter || layout_ != Layout::kShares);
}

void SlotsStrategy::Write(std::uint64_t round) {
  if (operation_.bytes == 0) return;
  const auto write = [&](std::byte* destination, const std::byte* source, std::uint64_t bytes) {
    moves_.Copy(MoveStreams::kWrites, destination, source, bytes);
  };
  const Rank own = operation_.rank;
  const bool is_root = operation_.is_root(own);
  std::byte* const slot = PayloadOf(own, round);
  const std::byte* const source = operation_.source() + window_.begin;
  switch (operation_.collective()) {
    case Collective::kReduce:
      if (layout_ != Layout::kShares && is_root && !reads_own_slot_) break;
      [[fallthrough]];
    case Collective::kAllReduce: WriteOperands(slot); break;
    case Collective::kBroadcast:
      if (is_root) write(slot, source, window_.bytes);
      break;
    case Collective::kAllGather:
      write(slot, source + (operation_.in_place ? operation_.block_at(own) : 0), window_.bytes);
      break;
    case Collective::kGather:
      if (!is_root) write(slot, source, window_.bytes);
      break;
    case Collective::kScatter:
      for (Rank to = 0; is_root && to < operation_.world_size; ++to)
        if (to != own) write(slot + PieceAt(to), source + operation_.block_at(to), window_.bytes);
      break;
    case Collective::kReduceScatter:
      for (Rank to = 0; to < operation_.world_size; ++to)
        if (to != own || reads_own_slot_)
          moves_.CopyOperands(slot + PieceAt(to), source + operation_.block_at(to), window_.bytes);
      break;
    case Collective::kAllToAll:
      for (Rank to = 0; to < operation_.world_size; ++to)
        if (to != own) write(slot + PieceAt(to), source + operation_.block_at(to), window_.bytes);
      break;
    case Collective::kBarrier: break;
  }
}

void SlotsStrategy::WriteOperands(std::byte* slot) {
  const std::byte* const source = operation_.source();
  if (layout_ != Layout::kShares) return moves_.CopyOperands(slot, source + window_.begin, window_.bytes);
  if (!is_share_round()) return;  // for the second round, CollectShare has already written the slot
  // Writes all shares except this rank's own.
  const ByteRange own = reads_own_slot_ ? ByteRange{window_.end(), 0} : operation_.ShareOf(operation_.rank, window_);
  moves_.CopyOperands(slot, source + window_.begin, own.begin - window_.begin);
  moves_.CopyOperands(slot + (own.end() - window_.begin), source + own.end(), window_.end() - own.end());
}

void SlotsStrategy::Collect(Rank rank, std::uint64_t round) {
  if (operation_.bytes == 0) return;
  if (Folds(operation_.collective())) return CollectVector(rank, round);
  const Rank own = operation_.rank;
  const bool is_own = rank == own;
  const std::byte* const slot = PayloadOf(rank, round);
  std::byte* const output = operation_.output + window_.begin;
  // This rank's own block is copied from the user's memory, unless it is in place already. For other blocks the user's
  // memory must not be used, and might not exist: only the root of a scatter has an input.
  const auto take = [&](std::byte* destination, const std::byte* from_slot, std::uint64_t block_begin) {
    if (!is_own) {
      moves_.CopyResult(destination, from_slot, window_.bytes);
    } else if (!operation_.in_place) {
      moves_.CopyResult(destination, operation_.input + block_begin + window_.begin, window_.bytes);
    }
  };
  switch (operation_.collective()) {
    case Collective::kBroadcast: take(output, slot, 0); break;
    case Collective::kAllGather:
    case Collective::kGather: take(output + operation_.block_at(rank), slot, 0); break;
    case Collective::kScatter: take(output, slot + PieceAt(own), operation_.block_at(own)); break;
    case Collective::kReduceScatter: {
      const auto operands = [&](Rank by) -> const std::byte* {
        if (by == own && !reads_own_slot_) return operation_.source() + operation_.block_at(own) + window_.begin;
        return PayloadOf(by, round) + PieceAt(own);
      };
      moves_.Fold(MoveStreams::kCollects, rank, output + (operation_.in_place ? operation_.block_at(own) : 0),
                  operands(0), operands(rank), window_.bytes);
      break;
    }
    case Collective::kAllToAll:
      take(output + operation_.block_at(rank), slot + PieceAt(own), operation_.block_at(rank));
      break;
    default: break;
  }
}

// Collect for all_reduce and reduce.
void SlotsStrategy::CollectVector(Rank rank, std::uint64_t round) {
  if (is_share_round()) {
    if (rank == operation_.world_size - 1) CollectShare(round);
    return;
  }
  if (layout_ == Layout::kShares) {
    const ByteRange share = operation_.ShareOf(rank, window_);
    return moves_.CopyResult(operation_.output + share.begin, PayloadOf(rank, round) + (share.begin - window_.begin),
                             share.bytes);
  }
  if (rank == 0) return;
  // This rank's operands are read from the user's memory, because the copy in its slot is not in this core's cache.
  const auto operands = [&](Rank by) -> const std::byte* {
    if (by == operation_.rank && !reads_own_slot_) return operation_.source() + window_.begin;
    return PayloadOf(by, round);
  };
  moves_.Fold(MoveStreams::kCollects, rank, operation_.output + window_.begin, operands(0), operands(rank),
              window_.bytes);
}

// Reduces this rank's share of the window, and writes the result into this rank's slot of the next round.
void SlotsStrategy::CollectShare(std::uint64_t round) {
  const ByteRange share = operation_.ShareOf(operation_.rank, window_);
  const std::uint64_t at = share.begin - window_.begin;
  const auto operands = [&](Rank by) -> const std::byte* {
    if (by == operation_.rank && !reads_own_slot_) return operation_.source() + share.begin;
    return PayloadOf(by, round) + at;
  };
  for (Rank r = 1; r < operation_.world_size; ++r)
    moves_.Fold(MoveStreams::kCollects, r, PayloadOf(operation_.rank, round + 1) + at, operands(0), operands(r),
                share.bytes);
}

}  // namespace rondo
