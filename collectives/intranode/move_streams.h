// Submits the moves of one operation in two streams of the mover. Stream kWrites has the moves that write data for
// other ranks. Stream kCollects has the moves that use the other ranks' data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "collectives/engine/mover.h"
#include "collectives/intranode/operation.h"

namespace rondo {

class MoveStreams {
 public:
  enum Stream : std::uint32_t { kWrites, kCollects };

  // The mover must outlive this object.
  explicit MoveStreams(Mover& mover);

  // `scale`: this rank's factor of a pre-multiplied sum.
  void Start(const IntranodeOperation& operation, double scale);

  void Submit(Stream stream, const Move& move) {
    mover_.Submit(stream, move);
    submitted_[stream] += move.bytes;
  }
  void Copy(Stream stream, std::byte* destination, const std::byte* source, std::uint64_t bytes) {
    if (bytes > 0)
      Submit(stream, {.kind = MoveKind::kCopy, .destination = destination, .left = source, .bytes = bytes});
  }
  // Copies a part of the result into the user's memory.
  void CopyResult(std::byte* destination, const std::byte* source, std::uint64_t bytes);
  // Writes this rank's operands of a reduction.
  void CopyOperands(std::byte* destination, const std::byte* source, std::uint64_t bytes);
  // Combines the result of all lower ranks with `next`, the operands of `rank`, and writes the new result to
  // `destination`. For rank 1 the result of the lower ranks is `first`, the operands of rank 0; for higher ranks it is
  // in `destination`. For rank 0 this function does nothing.
  void Fold(Stream stream, Rank rank, std::byte* destination, const std::byte* first, const std::byte* next,
            std::uint64_t bytes);

  // Whether all submitted moves of a stream are done.
  bool IsDone(Stream stream) {
    if (done_[stream] < submitted_[stream]) done_[stream] = mover_.Done(stream);
    return done_[stream] >= submitted_[stream];
  }
  bool IsBusy() const {
    return mover_.Done(kWrites) < submitted_[kWrites] || mover_.Done(kCollects) < submitted_[kCollects];
  }
  void Drain() { mover_.Drain(); }

 private:
  Mover& mover_;
  const std::uint64_t past_caches_from_bytes_;
  Rank last_rank_ = kNoRank;
  bool scales_ = false, divides_ = false;
  bool past_caches_ = false;                  // results are written with stores that bypass the caches
  std::array<std::uint64_t, 2> submitted_{};  // bytes submitted, by stream
  std::array<std::uint64_t, 2> done_{};       // bytes done when Mover::Done was last read, by stream
};

}  // namespace rondo
