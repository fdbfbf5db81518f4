// How an engine receives frames with checksums (collectives/framing/frame_check.h).
//
// A recv step receives straight into its destination, as without checksums. No other step reads the bytes before they
// count in `done`, and `done` moves only when the frame's checksum has arrived and matches. The checksum of pushed
// bytes is computed in the receiver's memory, so checksums work with every placement.
//
// A recv_reduce step keeps the payload aside until the frame's checksum has matched, for two reasons: a reduction
// cannot be undone, and the sender may still be able to write the bytes in a lane's slots. So the payload of a frame is
// limited (kMaxCheckedPayload). This limits the memory for payload that is kept aside, and the number of bytes by which
// a dependent step lags behind.
#include <fmt/core.h>

#include <algorithm>
#include <new>

#include "collectives/engine/engine.h"

namespace rondo {

Status Engine::LaneUse::PrepareAside(std::uint32_t frame_bytes) {
  if (aside != nullptr) return {};
  aside.reset(new (std::nothrow) std::byte[frame_bytes]);
  if (aside == nullptr)
    return Fail(ErrorCode::kOutOfMemory, "no memory for a frame of {} bytes that waits for its checksum", frame_bytes);
  return {};
}

Result<bool> Engine::ReceiveChecked(std::uint32_t index, LaneUse& use) {
  bool moved = false;
  if (!use.receiver.whole()) {
    RONDO_ASSIGN(moved, TakeUnverified(index, use));
    if (!use.receiver.whole()) return moved;
  }
  if (plan_->steps[index].kind == StepKind::kRecvReduce) return ReduceVerified(index, use) || moved;
  steps_[index].done = use.incoming_end;
  return moved;
}

Result<bool> Engine::TakeUnverified(std::uint32_t index, LaneUse& use) const {
  const StepState& state = steps_[index];
  const bool reduces = plan_->steps[index].kind == StepKind::kRecvReduce;
  bool moved = false;
  // Payload that is kept aside overwrites nothing that is still needed, so Limit() does not matter for it.
  const std::uint64_t end = reduces ? use.incoming_end : std::min(Limit(index), use.incoming_end);
  if (const std::uint64_t begin = use.arrived_end(); end > begin) {
    std::byte* const place =
        reduces ? use.aside.get() + (begin - use.incoming_frame_begin()) : state.destination + begin;
    moved = use.receiver.Take(MutableBytes(place, end - begin)) > 0;
  }
  if (use.receiver.payload_left() > 0) return moved;

  const FrameReceiver::Tail tail = use.receiver.TakeTail();
  if (tail == FrameReceiver::Tail::kDamaged)
    return Fail(
        use.receiver.DamagedPayload(fmt::format("in {} bytes at {} of transfer {}", use.receiver.payload_bytes(),
                                                use.incoming_frame_begin(), plan_->steps[index].transfer)));
  return moved || tail != FrameReceiver::Tail::kNothing;
}

bool Engine::ReduceVerified(std::uint32_t index, LaneUse& use) {
  const PlanStep& step = plan_->steps[index];
  StepState& state = steps_[index];
  const std::uint64_t done_before = state.done, submitted_before = state.submitted;
  std::uint64_t end = std::min(Limit(index), use.incoming_end);
  end -= (end < state.bytes) ? end % element_bytes_ : 0;
  if (end > state.submitted) {
    const std::byte* const incoming = use.aside.get() + (state.submitted - use.incoming_frame_begin());
    const std::byte* const own = state.source + state.submitted;
    mover_.Submit(
        index, {
                   .kind = step.finish && operation_.op == ReduceOp::kAvg ? MoveKind::kReduceDivide : MoveKind::kReduce,
                   .destination = state.destination + state.submitted,
                   .left = step.incoming_left ? incoming : own,
                   .right = step.incoming_left ? own : incoming,
                   .bytes = end - state.submitted,
                   .left_is_input = step.left_is_input,
                   .right_is_input = step.right_is_input,
               });
    state.submitted = end;
  }
  state.done = mover_.Done(index);
  return state.done != done_before || state.submitted != submitted_before;
}

}  // namespace rondo
