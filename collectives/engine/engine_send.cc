// How an engine sends: frames of one transfer, or several small transfers in one call.
#include <algorithm>
#include <array>
#include <span>

#include "collectives/engine/engine.h"

namespace rondo {
namespace {

// A transfer of at most this size is sent in one piece, when all of it may be sent. If it were sent piece by piece as
// the earlier steps progress, each piece would cost a call on both ranks.
constexpr std::uint64_t kWholeBytes = 16 * 1024;

}  // namespace

OutgoingFrame Engine::MakeFrame(std::uint32_t index, std::uint64_t payload, std::uint64_t offset, std::size_t ahead,
                                LaneUse& use) const {
  const StepState& state = steps_[index];
  Encode(
      FrameHeader{
          .transfer = plan_->steps[index].transfer,
          .payload_bytes = static_cast<std::uint32_t>(payload),
          .payload_offset = state.done,
          .transfer_bytes = state.bytes,
          .stream_offset = offset,
      },
      descriptor_, use.sender.Header(ahead));
  return use.sender.Make(state.source + state.done, payload, ahead);
}

void Engine::BeginFrame(std::uint32_t index, const OutgoingFrame& frame, std::uint64_t offset, LaneUse& use) {
  StepState& state = steps_[index];
  if (state.done == 0) state.stream_begin = offset;
  use.sender.Begin(frame, offset);
  use.outgoing = frame;
  use.frame_begin = state.done;
}

void Engine::TookOfFrame(std::uint32_t index, std::uint64_t bytes, LaneUse& use) {
  StepState& state = steps_[index];
  use.outgoing.sent += bytes;
  state.done = use.frame_begin + use.outgoing.payload_sent();
  if (use.outgoing.all_sent()) state.complete = state.done == state.bytes;
}

std::span<const std::uint32_t> Engine::Together(std::uint32_t queue) const {
  const std::span<const std::uint32_t> next = std::span(plan_->queues[queue].steps).subspan(queue_head_[queue]);
  const std::uint32_t run = plan_->steps[next.front()].run;
  const std::uint64_t small = std::min<std::uint64_t>(kWholeBytes, frame_bytes_);
  std::size_t count = 0;
  while (count < std::min<std::size_t>(next.size(), kMaxTogether) && plan_->steps[next[count]].run == run &&
         steps_[next[count]].bytes <= small)
    ++count;
  return next.first(count);
}

bool Engine::MayGoOn(std::uint32_t index) const {
  const StepState& state = steps_[index];
  if (state.bytes == 0) return DependenciesComplete(index);
  const std::uint64_t limit = Limit(index);
  return state.bytes <= kWholeBytes ? limit == state.bytes : limit > state.done;
}

bool Engine::IsHeldBack(std::uint32_t queue) const {
  const std::span<const std::uint32_t> together = Together(queue);
  if (together.empty()) return !MayGoOn(plan_->queues[queue].steps[queue_head_[queue]]);
  return !std::all_of(together.begin(), together.end(), [&](std::uint32_t index) { return MayGoOn(index); });
}

bool Engine::SendTogether(std::span<const std::uint32_t> steps, LaneUse& use) {
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (!use.sender.HasFreeHeader(i) || !MayGoOn(steps[i])) return false;

  std::array<OutgoingFrame, kMaxTogether> frames;
  FramePieces<kMaxTogether> pieces;
  std::uint64_t offset = use.lane().accepted();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    frames[i] = MakeFrame(steps[i], steps_[steps[i]].bytes, offset + pieces.asked(), i, use);
    use.sender.Gather(frames[i], frames[i].payload_bytes, pieces);
  }
  const std::size_t accepted = use.lane().Write(pieces.all());
  std::uint64_t left = accepted;
  for (std::size_t i = 0; left > 0; ++i) {
    const std::uint64_t taken = std::min(left, frames[i].bytes());
    BeginFrame(steps[i], frames[i], offset, use);
    TookOfFrame(steps[i], taken, use);
    offset += taken;
    left -= taken;
  }
  return accepted > 0;
}

bool Engine::Send(std::uint32_t queue, LaneUse& use) {
  const std::uint32_t index = plan_->queues[queue].steps[queue_head_[queue]];
  StepState& state = steps_[index];
  if (state.complete) return false;  // the step was sent together with the step before it
  if (!use.sending_frame()) {
    const std::span<const std::uint32_t> together = Together(queue);
    if (together.size() > 1) return SendTogether(together, use);
  }
  const std::uint64_t limit = Limit(index);
  if (limit < state.bytes && state.bytes <= kWholeBytes) return false;
  std::uint64_t turn_bytes = 0;
  bool moved = false;
  while (!state.complete) {
    if (!use.sending_frame()) {
      if (state.bytes > 0 && limit <= state.done) return moved;  // send no header before payload is ready
      if (state.bytes == 0 && !DependenciesComplete(index)) return moved;
      if (!use.sender.HasFreeHeader()) return moved;
      const std::uint64_t payload = std::min<std::uint64_t>(frame_bytes_, state.bytes - state.done);
      const std::uint64_t offset = use.lane().accepted();
      BeginFrame(index, MakeFrame(index, payload, offset, 0, use), offset, use);
    }

    // One call writes this frame's header, payload (as much of it as may be sent) and tail.
    FramePieces<1> pieces;
    use.sender.Gather(use.outgoing, limit - use.frame_begin, pieces);
    if (pieces.empty()) return moved;
    const std::size_t accepted = use.lane().Write(pieces.all());
    if (accepted == 0) return moved;
    moved = true;
    turn_bytes += accepted;
    TookOfFrame(index, accepted, use);
    if (accepted < pieces.asked() || turn_bytes >= kTurnBytes) return true;
  }
  return moved;
}

}  // namespace rondo
