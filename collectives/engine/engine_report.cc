// The reports of an engine: which steps are blocked and on which peers, which lane has failed, which peer is in another
// operation. Nothing here moves bytes.
#include <algorithm>

#include "collectives/engine/disagreement.h"
#include "collectives/engine/engine.h"

namespace rondo {

std::vector<BlockedStep> Engine::Waiting() const {
  std::vector<BlockedStep> waiting;
  if (plan_ == nullptr) return waiting;
  for (std::size_t q = 0; q < queue_head_.size(); ++q) {
    const PlanQueue& queue = plan_->queues[q];
    if (queue.peer == kNoRank) continue;
    const LaneUse& use = *queue_use_[q];
    if (queue_head_[q] == queue.steps.size()) {
      if (queue.sending && use.lane().released() < use.lane().accepted()) {
        const std::uint32_t last = queue.steps.back();
        waiting.push_back(BlockedStepOf(last, Released(last)));
        waiting.back().started = true;
      }
      continue;
    }
    const std::uint32_t index = queue.steps[queue_head_[q]];
    if (queue.sending && !use.sending_frame() && IsHeldBack(static_cast<std::uint32_t>(q))) continue;
    waiting.push_back(BlockedStepOf(index, steps_[index].done));
    waiting.back().started |= queue.sending ? use.sending_frame() : use.receiver.receiving();
  }
  std::sort(waiting.begin(), waiting.end(), [](const BlockedStep& a, const BlockedStep& b) { return a.step < b.step; });
  return waiting;
}

BlockedStep Engine::BlockedStepOf(std::uint32_t index, std::uint64_t done) const {
  const PlanStep& step = plan_->steps[index];
  const PlanQueue& queue = plan_->queues[step.queue];
  BlockedStep blocked{.peer = queue.peer, .step = index, .sending = queue.sending, .bytes_done = done};
  if (operation_.varying || slice_elements_ == share_.end - share_.begin) {
    blocked.bytes_due = steps_[index].bytes;
  } else {
    for (std::uint64_t begin = share_.begin; begin < share_.end; begin += slice_elements_) {
      const BlockGrid grid = GridOf(*plan_, begin);
      const std::uint64_t bytes = grid.BeginByte(step.chunks.end()) - grid.BeginByte(step.chunks.first);
      blocked.bytes_due += bytes;
      if (begin + slice_elements_ < slice_end_) blocked.bytes_done += bytes;
    }
  }
  blocked.started = blocked.bytes_done > 0;
  return blocked;
}

std::optional<Engine::FailedLane> Engine::FindFailedLane() const {
  if (plan_ == nullptr) return std::nullopt;
  for (std::size_t q = 0; q < queue_head_.size(); ++q) {
    const PlanQueue& queue = plan_->queues[q];
    if (queue.peer == kNoRank) continue;
    const Lane& lane = queue_use_[q]->lane();
    if (!HasStepsLeft(q) && (!queue.sending || lane.released() == lane.accepted())) continue;
    const LaneState lane_state = lane.state();
    // If the lane ends within a header or an element, the remaining bytes are never consumed, so the state does not
    // become kEnded.
    const bool ended = !queue.sending && (lane_state == LaneState::kEnded || lane.end_arrived());
    if (lane_state != LaneState::kFailed && !ended) continue;
    return FailedLane{queue.peer, lane.failure()};
  }
  return std::nullopt;
}

bool Engine::MoverBusy() const {
  if (plan_ == nullptr) return false;
  for (std::size_t q = 0; q < queue_head_.size(); ++q) {
    if (queue_head_[q] == plan_->queues[q].steps.size()) continue;
    const StepState& state = steps_[plan_->queues[q].steps[queue_head_[q]]];
    if (state.submitted > state.done) return true;
  }
  return false;
}

bool Engine::WaitsFor(Rank peer) const {
  if (plan_ == nullptr) return false;
  for (std::size_t q = 0; q < queue_head_.size(); ++q)
    if (plan_->queues[q].peer == peer && !plan_->queues[q].sending && HasStepsLeft(q)) return true;
  return false;
}

std::optional<Error> Engine::FindMismatchedPeer() {
  if (plan_ == nullptr) return std::nullopt;
  for (const Rank peer : endpoint_.ControlPeers()) {
    const auto use = UseOf(peer);  // also opens a lane that only the peer has opened so far
    if (!use || (*use)->receiver.receiving()) continue;
    bool expected = false;
    for (std::size_t q = 0; q < queue_head_.size(); ++q)
      expected |= queue_use_[q] == *use && !plan_->queues[q].sending && HasStepsLeft(q);
    if (expected) continue;
    HeaderArray bytes;
    FrameHeader header;
    const auto found = (*use)->receiver.PeekHeader(bytes);
    if (!found) return found.error();
    if (!*found) continue;
    if (Decode(bytes, header) || header.operation.sequence > operation_.sequence) continue;
    // no mismatch: the peer is in the next window of the same operation
    if (operation_.on_devices && header.operation == operation_) continue;
    return Disagreement(options_.rank, operation_, peer, header.operation);
  }
  return std::nullopt;
}

}  // namespace rondo
