#include "collectives/engine/engine.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "collectives/engine/disagreement.h"
#include "collectives/engine/slices.h"
#include "transport/lane_index.h"

namespace rondo {
namespace {

// A copy or local reduce is submitted to the mover in pieces, so that steps that depend on it can start before it ends.
constexpr std::uint64_t kLocalPieceBytes = 256 * 1024;

}  // namespace

Engine::Engine(const EngineOptions& options, Endpoint& endpoint, Mover& mover)
    : options_(options),
      frame_bytes_(options.checksums ? std::min(options.frame_bytes, kMaxCheckedPayload) : options.frame_bytes),
      frame_stride_(kFrameHeaderBytes + frame_bytes_ +
                    (options.checksums ? CheckedTailOf(frame_bytes_) : PaddingOf(frame_bytes_))),
      endpoint_(endpoint),
      mover_(mover),
      uses_(static_cast<std::size_t>(options.world_size)) {
  RONDO_CHECK(options.frame_bytes >= kLineBytes && options.frame_bytes % kLineBytes == 0, "frame_bytes {}",
              options.frame_bytes);
}

Result<Engine::LaneUse*> Engine::UseOf(Rank peer) {
  std::unique_ptr<LaneUse>& use = uses_[static_cast<std::size_t>(peer)];
  if (use == nullptr) {
    const std::uint32_t lane_index = LaneOfRail(options_.rail);
    RONDO_ASSIGN(Lane * lane, endpoint_.Open(peer, lane_index));
    use = std::make_unique<LaneUse>(*lane, lane_index, options_.checksums);
    // A rank sends a heartbeat when it first opens a lane to a peer, because a peer that has already failed answers
    // with the reason for its failure.
    endpoint_.SendControl(peer, {ControlKind::kHeartbeat, {}});
  }
  return use.get();
}

Status Engine::Start(const Plan& plan, const OperationDescriptor& operation, const OperationBuffers& buffers,
                     double scale, const Share& share) {
  RONDO_CHECK(plan_ == nullptr, "an operation is running");
  const bool whole = share.begin == 0 && share.end == operation.elements();
  RONDO_CHECK(
      whole || (plan.apart && !operation.varying && share.begin <= share.end && share.end <= operation.elements()),
      "elements {} to {} of {}", share.begin, share.end, operation.ToString());
  RONDO_CHECK(operation.varying != buffers.counts.empty(), "{} and the counts of its blocks", operation.ToString());
  element_bytes_ = SizeOf(operation.type);
  operation_ = operation;
  buffers_ = buffers;
  share_ = share;
  plain_buffers_ = plan.has_plain_buffers && (whole || plan.blocks == 1);
  slice_elements_ = share.end - share.begin;
  if (plan.in_slices && options_.slices)
    slice_elements_ = SliceElements(slice_elements_, element_bytes_, plan.chunks, options_.frame_bytes);
  const BlockGrid grid = GridOf(plan, share.begin);
  RONDO_TRY(scratch_.Prepare(plan, grid, options_.max_scratch_bytes, operation));

  queue_use_.assign(plan.queues.size(), nullptr);
  for (std::size_t q = 0; q < plan.queues.size(); ++q) {
    if (plan.queues[q].peer == kNoRank) continue;
    RONDO_ASSIGN(queue_use_[q], UseOf(plan.queues[q].peer));
    if (options_.checksums && !plan.queues[q].sending && Reduces(operation.collective))
      RONDO_TRY(queue_use_[q]->PrepareAside(frame_bytes_));
  }
  steps_.resize(std::max(steps_.size(), plan.steps.size()));
  Encode(operation, descriptor_);
  move_ = {operation.type, operation.op, scale, options_.world_size};
  plan_ = &plan;
  BeginSlice(share.begin, grid);
  return {};
}

BlockGrid Engine::GridOf(const Plan& plan, std::uint64_t begin) const {
  if (operation_.varying)
    return BlockGrid(plan.blocks, buffers_.counts, options_.rank, element_bytes_, plan.chunks_per_block);
  return BlockGrid(plan.blocks, std::min(slice_elements_, share_.end - begin), element_bytes_, plan.chunks_per_block);
}

void Engine::BeginNextSlice() {
  const BlockGrid grid = GridOf(*plan_, slice_end_);
  // the scratch memory suffices, because no chunk is longer in a later slice than in the first slice
  scratch_.LayOutAgain(*plan_, grid);
  BeginSlice(slice_end_, grid);
}

void Engine::BeginSlice(std::uint64_t begin, const BlockGrid& grid) {
  const Plan& plan = *plan_;
  slice_end_ = std::min(begin + slice_elements_, share_.end);
  OperationBuffers buffers = buffers_;
  if (buffers.input != nullptr) buffers.input += begin * element_bytes_;
  if (buffers.output != nullptr) buffers.output += begin * element_bytes_;
  queue_head_.assign(plan.queues.size(), 0);
  queues_left_ = static_cast<std::uint32_t>(plan.queues.size());

  // For each buffer, the number to add to a position to get an address. The bases are integers, because the address of
  // position 0 may be outside the buffer.
  std::array<std::uintptr_t, 3> bases{};
  if (plain_buffers_) {
    const auto base = [&](const std::byte* memory, const BlockSet& set) {
      return reinterpret_cast<std::uintptr_t>(memory) - grid.BlockBegin(set.first) * element_bytes_;
    };
    bases = {base(buffers.input, plan.input), base(buffers.output, plan.output),
             plan.scratch.empty() ? 0 : scratch_.AddressOf(0, 0)};
  }

  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const PlanStep& step = plan.steps[i];
    StepState& state = steps_[i];
    state = StepState{};
    state.begin = grid.BeginByte(step.chunks.first);
    state.bytes = grid.BeginByte(step.chunks.end()) - state.begin;
    if (plain_buffers_) {
      state.source = reinterpret_cast<const std::byte*>(bases[static_cast<std::size_t>(step.source)] + state.begin);
      state.destination = reinterpret_cast<std::byte*>(bases[static_cast<std::size_t>(step.destination)] + state.begin);
    } else if (state.bytes > 0) {
      if (step.kind != StepKind::kRecv) state.source = Address(plan, grid, buffers, step, step.source, state.begin);
      if (step.kind != StepKind::kSend)
        state.destination = Address(plan, grid, buffers, step, step.destination, state.begin);
    }
    // A recv_reduce step does not use push: it has no memory into which the peer could write.
    if (state.bytes >= options_.windows_from_bytes && options_.capabilities.push && step.kind == StepKind::kRecv)
      state.placement = Placement::kPush;
  }

  mover_.Start(move_, plan.steps.size());
}

std::byte* Engine::Address(const Plan& plan, const BlockGrid& grid, const OperationBuffers& buffers,
                           const PlanStep& step, BufferId buffer, std::uint64_t position) const {
  const auto in = [&](std::byte* base, const BlockSet& set) {
    const std::uint64_t within = position - grid.BlockBegin(step.block) * element_bytes_;
    const std::uint64_t before =
        operation_.varying ? grid.PackedElement(set, step.block) : set.IndexOf(step.block) * operation_.elements();
    return base + before * element_bytes_ + within;
  };
  switch (buffer) {
    // The const_cast is safe: no step has kInput as destination (the verifier proves it), so nothing writes through an
    // input pointer.
    case BufferId::kInput: return in(const_cast<std::byte*>(buffers.input), plan.input);
    case BufferId::kOutput: return in(buffers.output, plan.output);
    case BufferId::kScratch: return reinterpret_cast<std::byte*>(scratch_.AddressOf(step.scratch_range, position));
  }
  return nullptr;
}

std::uint64_t Engine::Released(std::uint32_t index) const {
  const PlanStep& step = plan_->steps[index];
  const StepState& state = steps_[index];
  if (step.kind != StepKind::kSend) return state.done;
  if (state.done == 0) return 0;
  const std::uint64_t released = queue_use_[step.queue]->lane().released();
  if (released <= state.stream_begin) return 0;
  // In the stream all full frames have the same length; only the final frame of a transfer may be shorter.
  const std::uint64_t passed = released - state.stream_begin;
  const std::uint64_t rest = passed % frame_stride_;
  const std::uint64_t begun = rest > kFrameHeaderBytes ? rest - kFrameHeaderBytes : 0;
  const std::uint64_t payload = passed / frame_stride_ * frame_bytes_ + std::min<std::uint64_t>(begun, frame_bytes_);
  return std::min(payload, state.done);
}

std::uint64_t Engine::Limit(std::uint32_t index) const {
  const PlanStep& step = plan_->steps[index];
  const StepState& state = steps_[index];
  std::uint64_t end = state.begin + state.bytes;
  const Dependency* dependency = plan_->dependencies.data() + step.first_dependency;
  for (std::uint32_t i = 0; i < step.dependencies; ++i, ++dependency) {
    const StepState& other = steps_[dependency->step];
    std::uint64_t passed;
    if (dependency->kind == DependencyKind::kWriteAfterRead) {
      passed = Released(dependency->step);
    } else {
      // An empty transfer (a barrier's signal) has no bytes to count. Steps that depend on it wait until its frame is
      // sent or received.
      if (!other.complete && other.bytes == 0) return 0;
      passed = other.done;
    }
    if (passed < other.bytes) end = std::min(end, other.begin + passed);
  }
  return end > state.begin ? end - state.begin : 0;
}

bool Engine::DependenciesComplete(std::uint32_t index) const {
  const PlanStep& step = plan_->steps[index];
  const Dependency* dependency = plan_->dependencies.data() + step.first_dependency;
  for (std::uint32_t i = 0; i < step.dependencies; ++i)
    if (!steps_[dependency[i].step].complete) return false;
  return true;
}

Result<Progress> Engine::Poll() {
  if (plan_ == nullptr) return Progress::kNothing;
  bool moved = false;
  if (queues_left_ > 0) {
    for (std::uint32_t q = 0; q < queue_head_.size(); ++q) {
      if (queue_head_[q] == plan_->queues[q].steps.size()) continue;
      RONDO_ASSIGN(const Progress progress, Advance(q));
      moved |= progress != Progress::kNothing;
    }
    if (queues_left_ > 0) return moved ? Progress::kMoved : Progress::kNothing;
  }
  // Every step is done. When the lanes have released the sent memory, the user's buffers belong to the user again, and
  // scratch is free for the next slice.
  for (std::uint32_t q = 0; q < queue_head_.size(); ++q) {
    if (queue_use_[q] == nullptr || !plan_->queues[q].sending) continue;
    if (queue_use_[q]->lane().released() < queue_use_[q]->lane().accepted())
      return moved ? Progress::kMoved : Progress::kNothing;
  }
  if (!IsLastSlice()) {
    BeginNextSlice();
    return Progress::kMoved;
  }
  plan_ = nullptr;
  return Progress::kComplete;
}

Result<Progress> Engine::Advance(std::uint32_t queue) {
  const std::vector<std::uint32_t>& order = plan_->queues[queue].steps;
  bool moved = false;
  while (true) {
    const std::uint32_t index = order[queue_head_[queue]];
    bool step_moved = false;
    switch (plan_->steps[index].kind) {
      case StepKind::kSend: step_moved = Send(queue, *queue_use_[queue]); break;
      case StepKind::kRecv:
      case StepKind::kRecvReduce: {
        RONDO_ASSIGN(step_moved, Receive(index, *queue_use_[queue]));
        break;
      }
      case StepKind::kCopy:
      case StepKind::kReduce: step_moved = RunLocally(index); break;
    }
    moved |= step_moved;
    if (!steps_[index].complete) return moved ? Progress::kMoved : Progress::kNothing;
    if (++queue_head_[queue] == order.size()) {
      --queues_left_;
      return Progress::kMoved;
    }
  }
}

Result<bool> Engine::Receive(std::uint32_t index, LaneUse& use) {
  StepState& state = steps_[index];
  const bool reduces = plan_->steps[index].kind == StepKind::kRecvReduce;
  // A signal (a step without chunks) is received after the steps that it depends on. A step that has chunks but no
  // bytes waits for nothing.
  if (plan_->steps[index].chunks.count == 0 && !DependenciesComplete(index)) return false;
  const std::uint64_t turn_end = state.done + kTurnBytes;
  bool moved = false;
  while (!state.complete) {
    Grant(index, use);
    if (!use.receiver.receiving()) {
      RONDO_ASSIGN(const bool read, ReadHeader(index, use));
      if (!read) return moved;
      moved = true;
    }
    bool took = false;
    if (options_.checksums) [[unlikely]] {
      RONDO_ASSIGN(took, ReceiveChecked(index, use));
    } else {
      const std::uint64_t end = std::min({Limit(index), use.incoming_end, turn_end});
      if (reduces) {
        took = ReducePayload(index, use, end);
      } else if (end > state.done) {
        const std::size_t taken = use.receiver.Take(MutableBytes(state.destination + state.done, end - state.done));
        state.done += taken;
        took = taken > 0;
      }
    }
    moved |= took;
    if (state.done == use.incoming_end && FinishFrame(index, use)) {
      moved = true;
    } else if (!took) {
      return moved;
    }
    if (state.done >= turn_end) return true;
  }
  return moved;
}

Result<bool> Engine::ReadHeader(std::uint32_t index, LaneUse& use) {
  const StepState& state = steps_[index];
  const Lane& lane = use.receiver.lane();
  HeaderArray bytes;
  RONDO_ASSIGN(const bool found, use.receiver.PeekHeader(bytes));
  if (!found) return false;
  const Rank peer = lane.peer();
  FrameHeader header;
  if (!DecodeOf(descriptor_, bytes, header)) {
    if (const auto fault = Decode(bytes, header))
      return Fail(Error(ErrorCode::kProtocol, fmt::format("rank {} sent an invalid frame at stream offset {}: {}", peer,
                                                          lane.consumed(), *fault))
                      .With([&](ErrorDetails& d) { d.culprit = peer; }));
    return Fail(Disagreement(options_.rank, operation_, peer, header.operation));
  }
  if (header.transfer == plan_->steps[index].transfer && header.transfer_bytes != state.bytes)
    return Fail(AnotherLength(options_.rank, operation_, peer, header, state.bytes));
  const std::uint64_t payload = std::min<std::uint64_t>(frame_bytes_, state.bytes - state.done);
  if (header.transfer != plan_->steps[index].transfer || header.payload_offset != state.done ||
      header.payload_bytes != payload || header.stream_offset != lane.consumed())
    return Fail(
        Error(ErrorCode::kProtocol,
              fmt::format("rank {} sent transfer {}, offset {}, {} bytes, at stream offset {}; expected transfer {}, "
                          "offset {}, {} bytes, at stream offset {} (is frame_bytes different on that rank?)",
                          peer, header.transfer, header.payload_offset, header.payload_bytes, header.stream_offset,
                          plan_->steps[index].transfer, state.done, payload, lane.consumed()))
            .With([&](ErrorDetails& d) { d.culprit = peer; }));
  use.receiver.Begin(header.payload_bytes);
  use.incoming_end = state.done + payload;
  use.stepped_over = 0;
  return true;
}

void Engine::Grant(std::uint32_t index, LaneUse& use) {
  const StepState& state = steps_[index];
  if (state.placement != Placement::kPush || use.windows_refused) return;
  Lane& lane = use.receiver.lane();
  // Allows the peer to push all frames of the transfer, even frames whose header has not arrived, because their offsets
  // in the stream are known. Limit() excludes memory that other steps still have to read or send.
  const bool receiving = use.receiver.receiving();
  if (state.done == 0 && !receiving) use.incoming_begin = lane.consumed();
  const std::uint64_t frame = frame_bytes_;
  const std::uint64_t limit = Limit(index);
  const std::uint64_t here = receiving ? use.arrived_end() : state.done;
  while (std::max(use.granted, here) < limit) {
    const std::uint64_t from = std::max(use.granted, here);
    const std::uint64_t end = std::min(limit, (from / frame + 1) * frame);
    const std::uint64_t offset = use.incoming_begin + from / frame * frame_stride_ + kFrameHeaderBytes + from % frame;
    use.windows_refused = !lane.Expect(offset, MutableBytes(state.destination + from, end - from));
    if (use.windows_refused) return;
    use.granted = end;
  }
}

bool Engine::ReducePayload(std::uint32_t index, LaneUse& use, std::uint64_t end) {
  const PlanStep& step = plan_->steps[index];
  StepState& state = steps_[index];
  Lane& lane = use.receiver.lane();
  bool moved = false;
  const auto settle = [&] {  // consumes the bytes that the mover has finished
    const std::uint64_t done = mover_.Done(index);
    moved |= done != state.done;
    state.done = done;
    // Consume invalidates the bytes that Peek returned, so it must wait until the mover has finished with all of them.
    if (done < state.submitted || use.stepped_over == 0) return;
    lane.Consume(use.stepped_over);
    use.stepped_over = 0;
    moved = true;
  };
  settle();
  end -= (end < state.bytes) ? end % element_bytes_ : 0;
  if (end <= state.submitted) return moved;

  // Peek asks for the tail too, so that a small frame is read from the socket in one call.
  const std::uint64_t want = use.stepped_over + (use.incoming_end - state.submitted) + use.receiver.tail_left();
  Arrived arrived = lane.Peek(want);
  for (std::uint64_t skip = use.stepped_over; skip > 0;) {
    const std::size_t n = std::min<std::uint64_t>(skip, arrived.first.size());
    arrived.first = arrived.first.subspan(n);
    skip -= n;
    if (arrived.first.empty()) std::swap(arrived.first, arrived.second);
  }

  const auto submit = [&](const std::byte* incoming, std::uint64_t bytes) {
    const std::byte* own = state.source + state.submitted;
    mover_.Submit(
        index, {
                   .kind = step.finish && operation_.op == ReduceOp::kAvg ? MoveKind::kReduceDivide : MoveKind::kReduce,
                   .destination = state.destination + state.submitted,
                   .left = step.incoming_left ? incoming : own,
                   .right = step.incoming_left ? own : incoming,
                   .bytes = bytes,
                   .left_is_input = step.left_is_input,
                   .right_is_input = step.right_is_input,
               });
    state.submitted += bytes;
    use.stepped_over += static_cast<std::uint32_t>(bytes);
  };
  const auto whole = [&](Bytes view) {
    const std::uint64_t n = std::min<std::uint64_t>(view.size(), end - state.submitted);
    return n - n % element_bytes_;
  };

  if (const std::uint64_t n = whole(arrived.first); n > 0) {
    submit(arrived.first.data(), n);
    arrived.first = arrived.first.subspan(n);
  }
  // An element that spans the two views that Peek returned is copied to split_element first. At most one element spans
  // them, because the views have only one boundary. The copy waits until the lane has consumed everything before the
  // element.
  if (!arrived.first.empty() && arrived.first.size() < element_bytes_ && end > state.submitted &&
      arrived.first.size() + arrived.second.size() >= element_bytes_) {
    const std::size_t head = arrived.first.size();
    if (use.stepped_over > 0) {
      settle();
      return moved;
    }
    std::copy_n(arrived.first.data(), head, use.split_element.data());
    std::copy_n(arrived.second.data(), element_bytes_ - head, use.split_element.data() + head);
    submit(use.split_element.data(), element_bytes_);
    settle();
    return true;
  }
  if (arrived.first.empty()) {
    if (const std::uint64_t n = whole(arrived.second); n > 0) submit(arrived.second.data(), n);
  }
  settle();
  return moved;
}

bool Engine::FinishFrame(std::uint32_t index, LaneUse& use) {
  const FrameReceiver::Tail tail = use.receiver.TakeTail();
  if (tail != FrameReceiver::Tail::kWhole) return tail == FrameReceiver::Tail::kPart;
  use.receiver.End();
  steps_[index].complete = steps_[index].done == steps_[index].bytes;
  use.windows_refused = false;  // the frame that was read may have made room for more push targets
  if (steps_[index].complete) use.granted = 0;
  return true;
}

bool Engine::RunLocally(std::uint32_t index) {
  const PlanStep& step = plan_->steps[index];
  StepState& state = steps_[index];
  const std::uint64_t limit = Limit(index);
  const std::uint64_t before = state.done;
  const std::uint64_t submitted_before = state.submitted;
  const bool divide = step.finish && operation_.op == ReduceOp::kAvg;
  const std::uint64_t end = limit - (limit < state.bytes ? limit % element_bytes_ : 0);
  if (end > state.submitted) {
    const std::uint64_t piece = std::min(end - state.submitted, kLocalPieceBytes);
    const std::byte* const source = state.source + state.submitted;
    std::byte* const destination = state.destination + state.submitted;
    if (step.kind == StepKind::kReduce) {
      mover_.Submit(index, {
                               .kind = divide ? MoveKind::kReduceDivide : MoveKind::kReduce,
                               .destination = destination,
                               .left = step.incoming_left ? source : destination,
                               .right = step.incoming_left ? destination : source,
                               .bytes = piece,
                               .left_is_input = step.left_is_input,
                               .right_is_input = step.right_is_input,
                           });
    } else {
      mover_.Submit(index, {
                               .kind = step.scale ? MoveKind::kScale
                                       : divide   ? MoveKind::kDivide
                                                  : MoveKind::kCopy,
                               .destination = destination,
                               .left = source,
                               .bytes = piece,
                           });
    }
    state.submitted += piece;
  }
  state.done = mover_.Done(index);
  state.complete = state.done == state.bytes;
  return state.done != before || state.submitted != submitted_before || state.complete;
}

void Engine::Drain() {
  if (plan_ == nullptr) return;
  mover_.Drain();
  plan_ = nullptr;
}

}  // namespace rondo
