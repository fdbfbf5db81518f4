// How an engine sends and receives frames with checksums (collectives/integrity/frame_check.h).
//
// What is received as it is goes straight into its place, as without checksums: nobody looks there before `done` says
// so, and `done` moves when the frame's end has come and matches. Pushed bytes are then summed in the receiver's
// memory, so checksums forbid no placement. What is to be reduced waits aside until its frame has matched: folding
// cannot be undone, and bytes in a lane's slots may still be their sender's to write. So a frame's payload is bounded
// (kMostCheckedPayload), and with it what waits aside and the distance at which one step follows another.
//
// A sender sums what it is about to give to the lane; its source is final as far as its dependencies allow it to send.
#include <fmt/core.h>

#include <algorithm>
#include <new>

#include "base/crc32c.h"
#include "collectives/engine/engine.h"

namespace rondo {

Status Engine::PrepareAside(LaneUse& use) const {
  if (use.checks->aside != nullptr) return {};
  use.checks->aside.reset(new (std::nothrow) std::byte[frame_bytes_]);
  if (use.checks->aside == nullptr)
    return Fail(ErrorCode::kOutOfMemory, "no memory for a frame of {} bytes that waits for its checksum", frame_bytes_);
  return {};
}

// ---- sending ----

Bytes Engine::PutTail(Bytes payload, std::size_t ahead, LaneUse& use) const {
  const std::size_t slot = (use.next_header + ahead) % LaneUse::kHeaders;
  if (payload.empty()) return {};
  OutgoingTail& tail = use.checks->tails[slot];
  tail.Seal(payload.size(), Crc32c(payload, SumOfHeader(use.headers[slot])));
  return tail.Last(CheckedTailOf(payload.size()));
}

// The frame whose header is the next one begins; `whole`: PutTail has made its tail.
void Engine::BeginSum(bool whole, LaneUse& use) const {
  Checks& checks = *use.checks;
  checks.slot = use.next_header;
  checks.sent_sum = SumOfHeader(use.headers[use.next_header]);
  checks.summed_end = whole ? UINT64_MAX : 0;
}

// The payload of the frame being sent is about to go as far as `end`.
void Engine::SumUpTo(std::uint64_t end, const StepState& state, LaneUse& use) const {
  Checks& checks = *use.checks;
  const std::uint64_t from = std::max(checks.summed_end, use.frame_begin);
  if (end <= from) return;
  checks.sent_sum = Crc32c(Bytes(state.source + from, end - from), checks.sent_sum);
  checks.summed_end = end;
  if (end == use.frame_begin + use.frame_payload) checks.tails[checks.slot].Seal(use.frame_payload, checks.sent_sum);
}

// ---- receiving ----

Status Engine::CheckHeader(HeaderArray& header, LaneUse& use) const {
  const Sums sums = OpenHeader(header);
  use.checks->arrived_sum = sums.found;
  if (sums.match()) return {};
  return Fail(DamagedFrame(use.lane->peer(), 0, use.lane->consumed(), "in its header", sums));
}

void Engine::BeginFrameToVerify(std::uint32_t index, LaneUse& use) const {
  Checks& checks = *use.checks;
  checks.frame_begin = checks.arrived_end = steps_[index].done;
  checks.verified = use.incoming_end == checks.frame_begin;  // without payload the header was all of it
  checks.tail.Begin();
}

Result<bool> Engine::ReceiveChecked(std::uint32_t index, LaneUse& use) {
  StepState& state = steps_[index];
  const bool reduces = plan_->steps[index].kind == StepKind::kRecvReduce;
  // A signal is heard after those before it; what has chunks and no bytes waits for nothing.
  if (plan_->steps[index].chunks.count == 0 && !DependenciesComplete(index)) return false;
  const std::uint64_t turn_end = state.done + kTurnBytes;
  bool moved = false;
  while (!state.complete) {
    Grant(index, use);
    if (!use.receiving_frame) {
      RONDO_ASSIGN(const bool read, ReadHeader(index, use));
      if (!read) return moved;
      moved = true;
    }
    bool step_moved = false;
    if (!use.checks->verified) {
      RONDO_ASSIGN(step_moved, TakeUnverified(index, use));
    }
    if (use.checks->verified) {
      if (reduces) {
        step_moved |= ReduceVerified(index, use);
      } else {
        state.done = use.incoming_end;
      }
      if (state.done == use.incoming_end) step_moved |= FinishFrame(index, use);
    }
    if (!step_moved) return moved;
    moved = true;
    if (state.done >= turn_end) return true;
  }
  return moved;
}

Result<bool> Engine::TakeUnverified(std::uint32_t index, LaneUse& use) {
  const StepState& state = steps_[index];
  Checks& checks = *use.checks;
  const bool reduces = plan_->steps[index].kind == StepKind::kRecvReduce;
  bool moved = false;
  // What is put aside overwrites nothing that anybody still needs.
  const std::uint64_t end = reduces ? use.incoming_end : std::min(Limit(index), use.incoming_end);
  if (end > checks.arrived_end) {
    std::byte* const place = reduces ? checks.aside.get() + (checks.arrived_end - checks.frame_begin)
                                     : state.destination + checks.arrived_end;
    const std::size_t taken = use.lane->ReadInto(MutableBytes(place, end - checks.arrived_end));
    checks.arrived_sum = Crc32c(Bytes(place, taken), checks.arrived_sum);
    checks.arrived_end += taken;
    moved = taken > 0;
  }
  if (checks.arrived_end < use.incoming_end) return moved;

  const std::size_t taken = checks.tail.Take(use.lane->Peek(use.incoming_padding), use.incoming_padding);
  use.lane->Consume(taken);
  use.incoming_padding -= taken;
  if (use.incoming_padding > 0) return moved || taken > 0;
  const Sums sums = checks.tail.Verify(checks.arrived_sum);
  if (!sums.match()) {
    const std::uint64_t payload = use.incoming_end - checks.frame_begin;
    return Fail(DamagedFrame(
        use.lane->peer(), 0, use.lane->consumed() - FrameBytesOf(payload),
        fmt::format("in {} bytes at {} of transfer {}", payload, checks.frame_begin, plan_->steps[index].transfer),
        sums));
  }
  checks.verified = true;
  return true;
}

bool Engine::ReduceVerified(std::uint32_t index, LaneUse& use) {
  const PlanStep& step = plan_->steps[index];
  StepState& state = steps_[index];
  const std::uint64_t done_before = state.done, submitted_before = state.submitted;
  std::uint64_t end = std::min(Limit(index), use.incoming_end);
  end -= (end < state.bytes) ? end % element_bytes_ : 0;
  if (end > state.submitted) {
    const std::byte* const incoming = use.checks->aside.get() + (state.submitted - use.checks->frame_begin);
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
