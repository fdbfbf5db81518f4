#include "collectives/intranode/relay.h"

#include <algorithm>

#include "base/bytes.h"

namespace rondo {
namespace {

// Bytes of all windows under way. They fit into a second-level cache, together with the vectors that stream through it.
constexpr std::uint64_t kRelayBytes = 1024 * 1024;
// Maximum number of windows in one poll, so that the caller can check its deadlines.
constexpr int kRelayWindowsPerPoll = 16;

}  // namespace

RelayStrategy::RelayStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation, MoveStreams& moves,
                             WindowCounts& counts)
    : segment_(segment),
      operation_(operation),
      moves_(moves),
      counts_(counts),
      max_window_bytes_(std::clamp(RoundUp(kRelayBytes / max_windows(), kLineBytes), std::uint64_t{kLineBytes},
                                   segment.slot_bytes())) {}

// A relay is not used between two ranks, because shares (slots.h) move no more bytes and wait less. It is not used for
// pre-multiplied sums, because their scaled operands would need extra memory.
bool RelayStrategy::Serves() const {
  const bool reduces =
      operation_.collective() == Collective::kAllReduce || operation_.collective() == Collective::kReduce;
  return reduces && operation_.world_size > 2 && !operation_.scales &&
         operation_.bytes >= max_windows() * max_window_bytes_;
}

void RelayStrategy::Start() {
  window_bytes_ =
      RoundUp(DivCeil(operation_.bytes, DivCeil(operation_.bytes, max_window_bytes_)), std::uint64_t{kLineBytes});
  windows_ = DivCeil(operation_.bytes, window_bytes_);
  folded_ = copied_ = 0;
  is_folding_ = is_copying_ = false;
}

ByteRange RelayStrategy::WindowOf(std::uint64_t number) const {
  const std::uint64_t begin = number * window_bytes_;
  return {begin, std::min(window_bytes_, operation_.bytes - begin)};
}

// Windows are counted over all operations, so that all ranks use the same slot for a window.
std::byte* RelayStrategy::SlotOf(std::uint64_t number) const {
  const auto world = static_cast<std::uint64_t>(operation_.world_size);
  const std::uint64_t at = (counts_.begin() + number) % max_windows();
  return segment_.PayloadOf(static_cast<Rank>(at % world), at / world);
}

std::uint64_t RelayStrategy::MayFold() const {
  if (operation_.rank > 0) return counts_.FoldedBy(operation_.rank - 1);
  // number of windows that every copying rank has copied out; every rank has folded these
  std::uint64_t copied = windows_;
  for (Rank r = 0; r < operation_.world_size; ++r)
    if (Copies(r)) copied = std::min(copied, counts_.CopiedBy(r));
  return std::min(copied + max_windows(), windows_);
}

std::uint64_t RelayStrategy::MayCopy() const {
  return Copies(operation_.rank) ? counts_.FoldedBy(operation_.world_size - 1) : 0;
}

bool RelayStrategy::Copies(Rank rank) const {
  return operation_.collective() == Collective::kAllReduce || operation_.is_root(rank);
}

Progress RelayStrategy::Poll() {
  bool moved = false;
  const std::uint64_t to_copy = Copies(operation_.rank) ? windows_ : 0;
  for (int i = 0; i < kRelayWindowsPerPoll; ++i) {
    const bool folded = FoldOn();
    const bool copied = CopyOn(to_copy);
    if (folded_ == windows_ && copied_ == to_copy) {
      counts_.End(windows_);
      return Progress::kComplete;
    }
    if (!folded && !copied) return moved ? Progress::kMoved : Progress::kNothing;
    moved = true;
  }
  return Progress::kMoved;
}

bool RelayStrategy::FoldOn() {
  if (folded_ == windows_) return false;
  if (!is_folding_ && folded_ < MayFold()) {
    FoldWindow(folded_);
    is_folding_ = true;
  }
  if (!is_folding_ || !moves_.IsDone(MoveStreams::kWrites)) return false;
  is_folding_ = false;
  counts_.PublishFolded(++folded_);
  return true;
}

bool RelayStrategy::CopyOn(std::uint64_t to_copy) {
  if (copied_ == to_copy) return false;
  if (!is_copying_ && copied_ < MayCopy()) {
    const ByteRange window = WindowOf(copied_);
    moves_.CopyResult(operation_.output + window.begin, SlotOf(copied_), window.bytes);
    is_copying_ = true;
  }
  if (!is_copying_ || !moves_.IsDone(MoveStreams::kCollects)) return false;
  is_copying_ = false;
  counts_.PublishCopied(++copied_);
  return true;
}

void RelayStrategy::FoldWindow(std::uint64_t number) {
  const ByteRange window = WindowOf(number);
  std::byte* const slot = SlotOf(number);
  const std::byte* const own = operation_.source() + window.begin;
  if (operation_.rank == 0) return moves_.Copy(MoveStreams::kWrites, slot, own, window.bytes);
  moves_.Fold(MoveStreams::kWrites, operation_.rank, slot, slot, own, window.bytes);
}

bool RelayStrategy::HasNews() const { return folded_ < MayFold() || copied_ < std::min(MayCopy(), windows_); }

Rank RelayStrategy::FirstNotToHaveFolded(std::uint64_t number) const {
  Rank first = 0;
  while (first < operation_.world_size && counts_.FoldedBy(first) > number) ++first;
  return first;
}

// This rank waits for the first rank in the relay that has not folded the window that this rank needs next. If that
// window has no free slot, this rank waits for the ranks that still use the slot.
bool RelayStrategy::WaitsFor(Rank peer) const {
  if (HasNews()) return false;
  const std::uint64_t window = folded_ < windows_ ? folded_ : copied_;
  if (window >= max_windows() && counts_.FoldedBy(0) <= window) {
    const std::uint64_t before = window - max_windows();
    const Rank first = FirstNotToHaveFolded(before);
    if (first < operation_.world_size) return first == peer;
    bool is_kept = false;
    for (Rank r = 0; r < operation_.world_size; ++r) is_kept = is_kept || (Copies(r) && counts_.CopiedBy(r) <= before);
    if (is_kept) return Copies(peer) && counts_.CopiedBy(peer) <= before;
  }
  return FirstNotToHaveFolded(window) == peer;
}

std::uint64_t RelayStrategy::BytesDone() const { return std::min(folded_ * window_bytes_, operation_.bytes); }

}  // namespace rondo
