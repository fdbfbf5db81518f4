#include "transport/fault/faulty_lane.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace rondo::fault {

FaultyLane::FaultyLane(Lane& inner, Rank self, std::uint32_t index, std::shared_ptr<FaultInjector> injector)
    : inner_(inner), self_(self), index_(index), injector_(std::move(injector)) {
  const auto& faults = injector_->plan().faults;
  for (const std::size_t fault : injector_->OnLane(self, inner.peer(), index)) {
    if (faults[fault].kind != FaultKind::kSlice) {
      uses_.push_back({.fault = fault});
      continue;
    }
    write_slices_.push_back(fault);
    write_slice_bytes_ = std::min(write_slice_bytes_, faults[fault].bytes);
  }
  for (const std::size_t fault : injector_->OnLane(inner.peer(), self, index)) {
    if (faults[fault].kind != FaultKind::kSlice) continue;
    read_slices_.push_back(fault);
    read_slice_bytes_ = std::min(read_slice_bytes_, faults[fault].bytes);
  }
  tampers_ = !uses_.empty() || !write_slices_.empty() || injector_->BytesUntilKill(self) != kNever;
}

// ---- what is due ----

void FaultyLane::Cut(Use& use) {
  use.done = true;
  ErrorDetails details;
  details.code = ErrorCode::kConnectionReset;
  details.message = fmt::format("lane {} with rank {} was cut after {} bytes (injected: {})", index_, peer(),
                                inner_.accepted(), ToString(At(use)));
  details.rank = self_;
  details.culprit = peer();
  failure_ = Error(std::move(details));
  inner_.Revoke();
  injector_->Fire(use.fault);
}

FaultyLane::Ahead FaultyLane::Settle(bool wants) {
  if (failure_ || inner_.state() == LaneState::kFailed || inner_.state() == LaneState::kConnecting) return {.bytes = 0};
  const std::uint64_t at = inner_.accepted();
  Ahead ahead;
  for (Use& use : uses_) {
    if (use.done) continue;
    const Fault& fault = At(use);
    const std::uint64_t distance = fault.bytes > at ? fault.bytes - at : 0;
    if (fault.kind == FaultKind::kCorrupt) {
      ahead.until_flip = std::min(ahead.until_flip, distance);
      continue;
    }
    ahead.bytes = std::min(ahead.bytes, distance);
    if (distance > 0) continue;
    if (fault.kind == FaultKind::kCut) {
      Cut(use);
      return {.bytes = 0};
    }
    if (wants && !std::exchange(use.waiting, true)) injector_->Fire(use.fault);
  }
  if (ahead.bytes == 0) return ahead;
  if (const std::uint64_t left = injector_->BytesUntilKill(self_); left != kNever) {
    if (left == 0) injector_->Written(self_, 0);
    ahead.bytes = std::min(ahead.bytes, left);
  }
  return ahead;
}

void FaultyLane::Poll(TimePoint now) {
  for (Use& use : uses_) {
    if (!use.waiting || use.done || !At(use).for_ms) continue;
    if (!use.until) use.until = Later(now, std::chrono::milliseconds(*At(use).for_ms));
    use.done = now >= *use.until;
    freed_ = freed_ || use.done;
  }
}

bool FaultyLane::TakeNews() {
  const bool hidden = std::exchange(hidden_, false);
  const bool freed = std::exchange(freed_, false);
  if (hidden || freed) return true;
  // No event reports the end of a stall, so the owner must stay awake until then.
  return std::any_of(uses_.begin(), uses_.end(),
                     [&](const Use& use) { return use.waiting && !use.done && At(use).for_ms; });
}

// ---- sending ----

std::byte FaultyLane::FlipMaskAt(std::uint64_t offset) {
  std::byte mask{};
  for (const Use& use : uses_)
    if (!use.done && At(use).kind == FaultKind::kCorrupt && At(use).bytes == offset)
      mask ^= injector_->MaskOf(use.fault);
  return mask;
}

void FaultyLane::MarkFlipped(std::uint64_t offset) {
  for (Use& use : uses_) {
    if (use.done || At(use).kind != FaultKind::kCorrupt || At(use).bytes != offset) continue;
    use.done = true;
    injector_->Fire(use.fault);
  }
}

std::size_t FaultyLane::PassToInner(std::span<const Bytes> pieces) {
  const std::size_t passed = inner_.Write(pieces);
  if (passed > 0) injector_->Written(self_, passed);
  return passed;
}

std::size_t FaultyLane::Pass(std::span<const Bytes> pieces, std::uint64_t skip, std::uint64_t most) {
  parts_.clear();
  for (Bytes piece : pieces) {
    const std::size_t behind = std::min<std::uint64_t>(skip, piece.size());
    skip -= behind;
    piece = piece.subspan(behind);
    piece = piece.first(std::min<std::uint64_t>(piece.size(), most));
    most -= piece.size();
    if (!piece.empty()) parts_.push_back(piece);
  }
  return parts_.empty() ? 0 : PassToInner(parts_);
}

std::size_t FaultyLane::PassFlipped(std::span<const Bytes> pieces, std::uint64_t skip) {
  for (const Bytes piece : pieces) {
    if (skip >= piece.size()) {
      skip -= piece.size();
      continue;
    }
    const std::uint64_t offset = inner_.accepted();
    flipped_.push_back(piece[skip] ^ FlipMaskAt(offset));
    const Bytes own(&flipped_.back(), 1);
    const std::size_t passed = PassToInner({&own, 1});
    if (passed > 0) {
      MarkFlipped(offset);
    } else {
      flipped_.pop_back();
    }
    return passed;
  }
  return 0;
}

std::size_t FaultyLane::Tamper(std::span<const Bytes> pieces) {
  std::uint64_t due = 0;
  for (const Bytes piece : pieces) due += piece.size();
  const std::uint64_t quota = std::min(due, write_slice_bytes_);
  std::uint64_t done = 0;
  while (done < quota) {
    const Ahead ahead = Settle(/*wants=*/true);
    std::uint64_t most = std::min(quota - done, ahead.bytes);
    if (most == 0) return done;
    most = std::min(most, std::max<std::uint64_t>(ahead.until_flip, 1));
    const std::size_t passed = ahead.until_flip == 0 ? PassFlipped(pieces, done) : Pass(pieces, done, most);
    done += passed;
    if (passed < most) break;
  }
  // A fault that is due right after the last byte is executed now, not at the next byte.
  if (due > 0) Settle(/*wants=*/false);
  if (done == quota && quota < due)
    for (const std::size_t fault : write_slices_) injector_->Fire(fault);
  return done;
}

std::size_t FaultyLane::Write(std::span<const Bytes> pieces) {
  return tampers_ ? Tamper(pieces) : inner_.Write(pieces);
}

// ---- receiving ----

Arrived FaultyLane::Peek(std::size_t want) {
  Arrived arrived = inner_.Peek(want);
  if (read_slices_.empty()) return arrived;
  const std::size_t most = std::min<std::uint64_t>(arrived.size(), shown_ + read_slice_bytes_);
  hidden_ = most < std::min(arrived.size(), want);
  if (hidden_)
    for (const std::size_t fault : read_slices_) injector_->Fire(fault);
  shown_ = most;
  arrived.first = arrived.first.first(std::min(most, arrived.first.size()));
  arrived.second = arrived.second.first(most - arrived.first.size());
  return arrived;
}

void FaultyLane::Consume(std::size_t bytes) {
  inner_.Consume(bytes);
  shown_ -= std::min(shown_, bytes);
}

std::size_t FaultyLane::ReadInto(MutableBytes destination) {
  if (read_slices_.empty()) return inner_.ReadInto(destination);
  const MutableBytes part = destination.first(std::min<std::uint64_t>(destination.size(), read_slice_bytes_));
  const std::size_t got = inner_.ReadInto(part);
  shown_ -= std::min(shown_, got);
  if (got == part.size() && part.size() < destination.size()) {
    hidden_ = true;
    for (const std::size_t fault : read_slices_) injector_->Fire(fault);
  }
  return got;
}

}  // namespace rondo::fault
