// What moves in a turn of the board: which bytes a rank writes into its slot, and what it makes of the others'.
#include <algorithm>

#include "base/bytes.h"
#include "collectives/engine/board_path.h"

namespace rondo {
namespace {

// A broadcast's root writes a window while the others read the one before, so a short vector has several.
constexpr std::uint64_t kBroadcastWindows = 4;
constexpr std::uint64_t kLeastBroadcastWindow = 16 * 1024;

}  // namespace

void BoardPath::CutIntoTurns() {
  bytes_ = operation_.elements() * SizeOf(operation_.type);
  std::uint64_t most = slot_bytes_;
  std::uint64_t in_slot = bytes_;
  two_turns_ = relays_ = false;
  past_caches_ = !in_place_ && bytes_ >= past_caches_from_bytes_;
  switch (operation_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      if (Relays()) return CutIntoRelay();
      two_turns_ = bytes_ > fold_by_all_bytes_;
      break;
    case Collective::kReduceScatter:
    case Collective::kScatter:
    case Collective::kAllToAll:
      most = piece_bytes_;
      in_slot = std::min(bytes_, most) * static_cast<std::uint64_t>(world_size_);
      break;
    case Collective::kBroadcast:
      most = std::min(slot_bytes_, std::max(kLeastBroadcastWindow, RoundUp(bytes_ / kBroadcastWindows, kLineBytes)));
      break;
    default: break;
  }
  std::uint64_t windows = 1;
  window_bytes_ = RoundUp(bytes_, kLineBytes);
  if (bytes_ > most) {
    // Of equal length, of whole lines, and so of whole elements.
    window_bytes_ = RoundUp(DivCeil(bytes_, DivCeil(bytes_, most)), kLineBytes);
    windows = DivCeil(bytes_, window_bytes_);
  }
  turns_ = two_turns_ ? 2 * windows : windows;
  in_line_ = turns_ == 1 && in_slot <= kInlineBytes;
}

// Among two ranks shares move as little and wait less; a scaled operand has no room of its own in a relay.
bool BoardPath::Relays() const { return world_size_ > 2 && !scales_ && bytes_ >= relay_slots() * relay_window_bytes_; }

void BoardPath::CutIntoRelay() {
  relays_ = true;
  const std::uint64_t windows = DivCeil(bytes_, relay_window_bytes_);
  window_bytes_ = RoundUp(DivCeil(bytes_, windows), kLineBytes);
  windows_ = DivCeil(bytes_, window_bytes_);
  turns_ = 2;
  in_line_ = false;
}

BoardPath::Range BoardPath::Window() const {
  const std::uint64_t begin = (two_turns_ ? index_ / 2 : index_) * window_bytes_;
  return {begin, std::min(window_bytes_, bytes_ - begin)};
}

BoardPath::Range BoardPath::ShareOf(Rank rank, const Range& window) const {
  const std::uint64_t most = RoundUp(DivCeil(window.bytes, static_cast<std::uint64_t>(world_size_)), kLineBytes);
  const std::uint64_t begin = std::min(static_cast<std::uint64_t>(rank) * most, window.bytes);
  return {window.begin + begin, std::min(most, window.bytes - begin)};
}

std::uint64_t BoardPath::PieceAt(Rank rank, const Range& window) const {
  return static_cast<std::uint64_t>(rank) * (in_line_ ? window.bytes : RoundUp(window.bytes, kLineBytes));
}

bool BoardPath::OwnIsInSlot() const {
  if (scales_) return true;
  // In place the result overwrites what this rank brings, from the second fold on before its turn to be folded.
  return in_place_ && rank_ >= 2 && (operation_.collective == Collective::kReduceScatter || !two_turns_);
}

void BoardPath::Submit(std::uint32_t stream, const Move& move) {
  mover_.Submit(stream, move);
  submitted_[stream] += move.bytes;
}

void BoardPath::Copy(std::uint32_t stream, std::byte* destination, const std::byte* source, std::uint64_t bytes) {
  if (bytes > 0) Submit(stream, {.kind = MoveKind::kCopy, .destination = destination, .left = source, .bytes = bytes});
}

// Results. In place their lines are in cache, because what this rank brings was just read there.
void BoardPath::CopyOut(std::byte* destination, const std::byte* source, std::uint64_t bytes) {
  if (bytes == 0) return;
  Submit(kCollects, {.kind = MoveKind::kCopy,
                     .destination = destination,
                     .left = source,
                     .bytes = bytes,
                     .past_caches = past_caches_});
}

// This rank's part of a sum.
void BoardPath::Contribute(std::byte* slot, const std::byte* source, std::uint64_t bytes) {
  if (!scales_) return Copy(kWrites, slot, source, bytes);
  if (bytes > 0) Submit(kWrites, {.kind = MoveKind::kScale, .destination = slot, .left = source, .bytes = bytes});
}

void BoardPath::Write() {
  if (stage_ != Stage::kMain) return WritePrelude();
  if (bytes_ == 0 || relays_ || pulls_) return;
  const Range window = Window();
  const bool is_root = rank_ == operation_.root;
  std::byte* const slot = Payload(rank_, turn_);
  const std::byte* const source = Source() + window.begin;
  switch (operation_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      if (!two_turns_) {
        if (operation_.collective == Collective::kAllReduce || !is_root || OwnIsInSlot())
          Contribute(slot, source, window.bytes);
      } else if (is_share_turn()) {
        const Range own = OwnIsInSlot() ? Range{window.end(), 0} : ShareOf(rank_, window);
        Contribute(slot, source, own.begin - window.begin);
        Contribute(slot + (own.end() - window.begin), Source() + own.end(), window.end() - own.end());
      }  // else CollectShare has written it
      break;
    case Collective::kBroadcast:
      if (is_root) Copy(kWrites, slot, source, window.bytes);
      break;
    case Collective::kAllGather: Copy(kWrites, slot, source + (in_place_ ? BlockAt(rank_) : 0), window.bytes); break;
    case Collective::kGather:
      if (!is_root) Copy(kWrites, slot, source, window.bytes);
      break;
    case Collective::kScatter:
      for (Rank to = 0; is_root && to < world_size_; ++to)
        if (to != rank_) Copy(kWrites, slot + PieceAt(to, window), source + BlockAt(to), window.bytes);
      break;
    case Collective::kReduceScatter:
      for (Rank to = 0; to < world_size_; ++to)
        if (to != rank_ || OwnIsInSlot()) Contribute(slot + PieceAt(to, window), source + BlockAt(to), window.bytes);
      break;
    case Collective::kAllToAll:
      for (Rank to = 0; to < world_size_; ++to)
        if (to != rank_) Copy(kWrites, slot + PieceAt(to, window), source + BlockAt(to), window.bytes);
      break;
    case Collective::kBarrier: break;
  }
}

BoardPath::Wanted BoardPath::WantedInTurn() const {
  if (stage_ != Stage::kMain || pulls_) return Wanted::kAll;
  if (relays_) return index_ == 0 ? Wanted::kAll : Wanted::kNobody;
  switch (operation_.collective) {
    case Collective::kReduce: return is_share_turn() || rank_ == operation_.root ? Wanted::kAll : Wanted::kNobody;
    case Collective::kGather: return rank_ == operation_.root ? Wanted::kAll : Wanted::kNobody;
    case Collective::kBroadcast:
    case Collective::kScatter: return Wanted::kRoot;
    default: return Wanted::kAll;
  }
}

// After those of all lower ranks.
void BoardPath::Collect(Rank rank) {
  if (bytes_ == 0 || relays_ || pulls_ || stage_ != Stage::kMain) return;
  const Range window = Window();
  const bool own = rank == rank_;
  const std::byte* const slot = Payload(rank, turn_);
  std::byte* const output = buffers_.output + window.begin;
  switch (operation_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      if (two_turns_) {
        const Range share = ShareOf(rank, window);
        CopyOut(buffers_.output + share.begin, slot + (share.begin - window.begin), share.bytes);
      } else {
        // From the slot it could be read only once this core has the slot's lines.
        const auto brought = [&](Rank by) -> const std::byte* {
          if (by == rank_ && !OwnIsInSlot()) return Source() + window.begin;
          return Payload(by, turn_);
        };
        Fold(rank, output, brought(0), brought(rank), window.bytes);
      }
      break;
    case Collective::kBroadcast:
      if (!own || !in_place_) CopyOut(output, slot, window.bytes);
      break;
    case Collective::kAllGather:
    case Collective::kGather:
      if (!own) {
        CopyOut(output + BlockAt(rank), slot, window.bytes);
      } else if (!in_place_) {
        CopyOut(output + BlockAt(rank), buffers_.input + window.begin, window.bytes);
      }
      break;
    case Collective::kScatter:
      if (!own) {
        CopyOut(output, slot + PieceAt(rank_, window), window.bytes);
      } else if (!in_place_) {
        CopyOut(output, buffers_.input + BlockAt(rank_) + window.begin, window.bytes);
      }
      break;
    case Collective::kReduceScatter: {
      const auto brought = [&](Rank by) -> const std::byte* {
        if (by == rank_ && !OwnIsInSlot()) return Source() + BlockAt(rank_) + window.begin;
        return Payload(by, turn_) + PieceAt(rank_, window);
      };
      Fold(rank, output + (in_place_ ? BlockAt(rank_) : 0), brought(0), brought(rank), window.bytes);
      break;
    }
    case Collective::kAllToAll:
      CopyOut(output + BlockAt(rank),
              own ? buffers_.input + BlockAt(rank) + window.begin : slot + PieceAt(rank_, window), window.bytes);
      break;
    case Collective::kBarrier: break;
  }
}

void BoardPath::CollectShare() {
  const Range window = Window();
  const Range share = ShareOf(rank_, window);
  const std::uint64_t at = share.begin - window.begin;
  const auto brought = [&](Rank by) -> const std::byte* {
    if (by == rank_ && !OwnIsInSlot()) return Source() + share.begin;
    return Payload(by, turn_) + at;
  };
  for (Rank r = 1; r < world_size_; ++r) Fold(r, Payload(rank_, turn_ + 1) + at, brought(0), brought(r), share.bytes);
}

// Adds what `rank` brought to the fold of all lower ranks, which lies in `destination`, from rank 1 on; `first` is what
// rank 0 brought.
void BoardPath::Fold(Rank rank, std::byte* destination, const std::byte* first, const std::byte* next,
                     std::uint64_t bytes) {
  if (rank == 0 || bytes == 0) return;
  const bool last = rank == world_size_ - 1;
  Submit(kCollects, {.kind = last && divides_ ? MoveKind::kReduceDivide : MoveKind::kReduce,
                     .destination = destination,
                     .left = rank == 1 ? first : destination,
                     .right = next,
                     .bytes = bytes,
                     .left_is_input = rank == 1,
                     .right_is_input = true});
}

}  // namespace rondo
