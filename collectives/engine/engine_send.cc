// How an engine sends: frames of one transfer, or several small transfers at once.
#include <algorithm>
#include <array>
#include <span>

#include "collectives/engine/engine.h"

namespace rondo {
namespace {

constexpr std::array<std::byte, kLineBytes> kZeros{};

// A transfer of up to so many bytes goes in one piece, when all of it may: streamed piece by piece, as the steps before
// it go on, each piece would cost a call here and one there.
constexpr std::uint64_t kWholeBytes = 16 * 1024;

}  // namespace

bool Engine::HeaderIsFree(const LaneUse& use, std::size_t ahead) {
  return use.header_end[(use.next_header + ahead) % LaneUse::kHeaders] <= use.lane->released();
}

Bytes Engine::PutHeader(std::uint32_t index, std::uint64_t payload, std::uint64_t offset, std::size_t ahead,
                        LaneUse& use) const {
  auto& header = use.headers[(use.next_header + ahead) % LaneUse::kHeaders];
  Encode(
      FrameHeader{
          .transfer = plan_->steps[index].transfer,
          .payload_bytes = static_cast<std::uint32_t>(payload),
          .payload_offset = steps_[index].done,
          .transfer_bytes = steps_[index].bytes,
          .stream_offset = offset,
      },
      descriptor_, FrameHeaderBytes(header));
  if (options_.checksums) [[unlikely]]
    SealHeader(header);
  return header;
}

void Engine::BeginFrame(std::uint32_t index, std::uint64_t payload, std::uint64_t offset, LaneUse& use) {
  StepState& state = steps_[index];
  if (state.done == 0) state.stream_begin = offset;
  use.frame_begin = state.done;
  use.frame_payload = payload;
  use.frame_sent = 0;
  use.header = use.headers[use.next_header].data();
  use.header_end[use.next_header] = offset + kFrameHeaderBytes;
  if (options_.checksums) [[unlikely]]  // what follows the payload is lent as well
    use.header_end[use.next_header] = offset + FrameBytesOf(payload);
  use.next_header = (use.next_header + 1) % LaneUse::kHeaders;
  use.sending_frame = true;
}

void Engine::TookOfFrame(std::uint32_t index, std::uint64_t bytes, LaneUse& use) {
  StepState& state = steps_[index];
  use.frame_sent += bytes;
  if (use.frame_sent > kFrameHeaderBytes)
    state.done = use.frame_begin + std::min(use.frame_sent - kFrameHeaderBytes, use.frame_payload);
  if (use.frame_sent < FrameBytesOf(use.frame_payload)) return;
  use.sending_frame = false;
  state.complete = state.done == state.bytes;
}

bool Engine::IsSmall(std::uint32_t index) const {
  return steps_[index].bytes <= std::min<std::uint64_t>(kWholeBytes, frame_bytes_);
}

std::span<const std::uint32_t> Engine::Together(std::uint32_t queue) const {
  const std::span<const std::uint32_t> next = std::span(plan_->queues[queue].steps).subspan(queue_head_[queue]);
  const std::uint32_t run = plan_->steps[next.front()].run;
  std::size_t count = 0;
  while (count < std::min<std::size_t>(next.size(), kMostTogether) && plan_->steps[next[count]].run == run &&
         IsSmall(next[count]))
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
    if (!HeaderIsFree(use, i) || !MayGoOn(steps[i])) return false;

  std::array<Bytes, 3 * kMostTogether> pieces;
  std::uint64_t offset = use.lane->accepted();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepState& state = steps_[steps[i]];
    pieces[3 * i] = PutHeader(steps[i], state.bytes, offset, i, use);
    pieces[3 * i + 1] = Bytes(state.source, state.bytes);
    pieces[3 * i + 2] = Bytes(kZeros.data(), PaddingOf(state.bytes));
    if (options_.checksums) [[unlikely]]
      pieces[3 * i + 2] = PutTail(pieces[3 * i + 1], i, use);
    offset += FrameBytesOf(state.bytes);
  }
  offset = use.lane->accepted();
  const std::size_t accepted = use.lane->Write(std::span(pieces.data(), 3 * steps.size()));
  std::uint64_t left = accepted;
  for (std::size_t i = 0; left > 0; ++i) {
    const std::uint64_t frame_bytes = FrameBytesOf(steps_[steps[i]].bytes);
    const std::uint64_t taken = std::min(left, frame_bytes);
    if (options_.checksums) [[unlikely]]
      BeginSum(/*whole=*/true, use);
    BeginFrame(steps[i], steps_[steps[i]].bytes, offset, use);
    TookOfFrame(steps[i], taken, use);
    offset += frame_bytes;
    left -= taken;
  }
  return accepted > 0;
}

bool Engine::Send(std::uint32_t queue, LaneUse& use) {
  const std::uint32_t index = plan_->queues[queue].steps[queue_head_[queue]];
  StepState& state = steps_[index];
  if (state.complete) return false;  // went with the one before
  if (!use.sending_frame) {
    const std::span<const std::uint32_t> together = Together(queue);
    if (together.size() > 1) return SendTogether(together, use);
  }
  const std::uint64_t limit = Limit(index);
  if (limit < state.bytes && state.bytes <= kWholeBytes) return false;
  std::uint64_t turn_bytes = 0;
  bool moved = false;
  while (!state.complete) {
    if (!use.sending_frame) {
      if (state.bytes > 0 && limit <= state.done) return moved;  // no header before it has bytes to lead
      if (state.bytes == 0 && !DependenciesComplete(index)) return moved;
      if (!HeaderIsFree(use, 0)) return moved;
      const std::uint64_t payload = std::min<std::uint64_t>(frame_bytes_, state.bytes - state.done);
      const std::uint64_t offset = use.lane->accepted();
      PutHeader(index, payload, offset, 0, use);
      if (options_.checksums) [[unlikely]]
        BeginSum(/*whole=*/false, use);
      BeginFrame(index, payload, offset, use);
    }

    // Header, payload and padding of this frame, as far as the payload may go, in one call.
    std::array<Bytes, 3> pieces;
    std::size_t count = 0;
    const std::uint64_t frame_bytes = FrameBytesOf(use.frame_payload);
    std::uint64_t at = use.frame_sent;
    if (at < kFrameHeaderBytes) {
      pieces[count++] = Bytes(use.header + at, kFrameHeaderBytes - at);
      at = kFrameHeaderBytes;
    }
    const std::uint64_t payload_end = kFrameHeaderBytes + use.frame_payload;
    if (at < payload_end) {
      const std::uint64_t from = use.frame_begin + at - kFrameHeaderBytes;
      const std::uint64_t to = std::min({limit, use.frame_begin + use.frame_payload, from + kTurnBytes});
      if (to > from) {
        pieces[count++] = Bytes(state.source + from, to - from);
        if (options_.checksums) [[unlikely]]
          SumUpTo(to, state, use);
        at += to - from;
      }
    }
    if (at >= payload_end && at < frame_bytes)
      pieces[count++] = options_.checksums ? use.checks->tails[use.checks->slot].Last(frame_bytes - at)
                                           : Bytes(kZeros.data(), frame_bytes - at);
    if (count == 0) return moved;

    std::size_t asked = 0;
    for (std::size_t i = 0; i < count; ++i) asked += pieces[i].size();
    const std::size_t accepted = use.lane->Write(std::span(pieces.data(), count));
    if (accepted == 0) return moved;
    moved = true;
    turn_bytes += accepted;
    TookOfFrame(index, accepted, use);
    if (accepted < asked || turn_bytes >= kTurnBytes) return true;
  }
  return moved;
}

}  // namespace rondo
