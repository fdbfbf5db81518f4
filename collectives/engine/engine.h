// Runs one rank's part of one operation: keeps the head of every lane direction live, moves bytes as far as
// dependencies allow, and counts. What is worked off in slices (slices.h) is one operation to everybody else.
//
// The engine is sans-I/O: it blocks on nothing, owns no thread, reads no clock and knows lanes only by their interface.
// In steady state it allocates nothing: tables grow to the largest plan seen and stay.
//
// Progress is a byte count. A step that depends on another may process its byte at position p as soon as the other has
// passed p: `done` for what it reads or overwrites of written data, `released` for what it overwrites of sent data. The
// positions are those of the virtual vector (grid.h), the same in input, output and scratch, so one comparison serves
// all kinds; where a step's bytes lie in each buffer is worked out once, at Start.
//
// Frames go out and come in by collectives/framing, plain or with checksums. With checksums `done` counts verified
// frames only. So no rank sends on, folds or reports what turns out damaged, and a rank that needs bytes from one that
// has found damage does not get to its end either (engine_checked.cc).
//
// Thread rule: one thread at a time (the owner of the endpoint).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/engine/blocked_step.h"
#include "collectives/engine/frame.h"
#include "collectives/engine/mover.h"
#include "collectives/engine/plan.h"
#include "collectives/engine/scratch.h"
#include "collectives/framing/frame_receiver.h"
#include "collectives/framing/frame_sender.h"
#include "collectives/schedule/grid.h"
#include "transport/transport.h"

namespace rondo {

struct EngineOptions {
  Rank rank = 0;
  int world_size = 1;
  std::uint32_t rail = 0;               // counted from the endpoint's first rail; its lanes are used
  std::uint32_t frame_bytes = 1 << 20;  // payload of one frame at most; a multiple of kLineBytes
  std::uint64_t max_scratch_bytes = std::uint64_t{1} << 30;  // more gives kResource at Start
  Capabilities capabilities;                                 // of the transport
  // Transfers from this size on are placed by push where the transport can; smaller ones use slots. Both ends
  // decide alike, because options are equal on all ranks.
  std::uint64_t windows_from_bytes = 64 << 10;
  bool slices =
      false;  // large vectors are worked off in slices where the plan allows it (slices.h); equal on all ranks
  // Frames carry checksums, and have at most kMostCheckedPayload of payload; equal on all ranks.
  bool checksums = false;
};

// How a transfer's payload gets into the receiver's memory (transport/lane.h).
enum class Placement : std::uint8_t { kSlot, kPush };

// The memory of one operation; lent, with what `counts` refers to, from Start until Poll says kComplete or, after an
// error, Drain returns. What lies there is layout.h's to say, packed. Null where the rank has no input (in place, or
// not the root of a scatter) or no output (not the root of a gather), or where they are empty.
struct OperationBuffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  BlockCounts counts = {};  // of operations that are `varying`
};

enum class Progress : std::uint8_t {
  kNothing,   // nothing could move
  kMoved,     // something moved; look again
  kComplete,  // all steps are done and all sent memory is released
};

// The elements of every block that an engine works on: all, or where others work on the rest, begin <= e < end.
struct Share {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Engine {
 public:
  // All arguments outlive the engine.
  Engine(const EngineOptions& options, Endpoint& endpoint, Mover& mover);

  // Begins an operation. REQUIRES: none is running; `plan` lives until it ends; `operation.varying` says whether
  // `buffers` has counts. Opens the lanes it needs.
  // kResource: too much scratch, or a lane could not be made. kOutOfMemory: no memory for scratch. After an error
  // nothing runs.
  Status Start(const Plan& plan, const OperationDescriptor& operation, const OperationBuffers& buffers, double scale) {
    return Start(plan, operation, buffers, scale, {0, operation.elements()});
  }
  // The same for a part of every block. The buffers are those of the whole. REQUIRES: within the count; and unless it
  // is all: plan.apart, and the operation is not `varying`.
  Status Start(const Plan& plan, const OperationDescriptor& operation, const OperationBuffers& buffers, double scale,
               const Share& share);
  bool running() const { return plan_ != nullptr; }

  // Moves what can move. An error (kMismatch: the peer is in another operation, or its transfer is of another length
  // than due here; kProtocol; kCorrupt: a checksum did not match) is final for the lanes: Drain, and never Start again.
  Result<Progress> Poll();

  // Ends the running operation after an error: returns once nothing touches its memory. REQUIRES: the lanes have been
  // revoked.
  void Drain();

  // The running operation's steps that wait for a peer, oldest first.
  std::vector<BlockedStep> Waiting() const;
  // The first peer still needed whose lane is broken or ended, if any, with the lane's error (null when merely ended).
  struct FailedLane {
    Rank peer = kNoRank;
    const Error* error = nullptr;
  };
  std::optional<FailedLane> FindFailedLane() const;
  // Whether the mover works on something; nobody is woken when it is done.
  bool MoverBusy() const;
  // Whether bytes of the running operation are still due from `peer`.
  bool WaitsFor(Rank peer) const;
  // Looks at what arrived on lanes from which the running operation expects nothing: a peer that is in another
  // operation under the same number. For the slow path.
  std::optional<Error> FindMismatchedPeer();

  const OperationDescriptor& operation() const { return operation_; }

 private:
  // One cache line: a step and what it depends on are looked at all the time.
  struct alignas(kLineBytes) StepState {
    std::uint64_t begin = 0;            // position in the virtual vector, bytes
    std::uint64_t bytes = 0;            // length
    std::uint64_t done = 0;             // payload bytes sent, received, reduced, copied
    std::uint64_t submitted = 0;        // of steps through the mover: handed to it; >= done
    std::uint64_t stream_begin = 0;     // of sends: stream offset of the first frame's header
    const std::byte* source = nullptr;  // where its bytes begin, if it has any there
    std::byte* destination = nullptr;
    Placement placement = Placement::kSlot;
    bool complete = false;  // done == bytes and the last frame's padding is through
  };

  // A lane as the engine drives it: the frame at the head of either direction. A rank may have many lanes and use each
  // for a moment, so what one direction touches stands in as few cache lines as can be.
  struct alignas(kLineBytes) LaneUse {
    static_assert(kMostTogether <= FrameSender::kHeaders);
    LaneUse(Lane& lane, std::uint32_t lane_index, bool checksums)
        : sender(lane, checksums), receiver(lane, lane_index, checksums) {}

    Lane& lane() const { return sender.lane(); }
    bool sending_frame() const { return !outgoing.all_sent(); }
    // Positions within the transfer of what has arrived of the payload, verified or not, and where that began.
    std::uint64_t arrived_end() const { return incoming_end - receiver.payload_left(); }
    std::uint64_t incoming_frame_begin() const { return incoming_end - receiver.payload_bytes(); }

    // With checksums, and before something is received that is reduced. kOutOfMemory.
    Status PrepareAside(std::uint32_t frame_bytes);

    // Sending.
    FrameSender sender;
    OutgoingFrame outgoing;
    std::uint64_t frame_begin = 0;  // payload offset of that frame within its transfer
    // Receiving.
    alignas(kLineBytes) FrameReceiver receiver;
    std::uint64_t incoming_begin = 0;  // of a transfer by push: stream offset of its first header
    std::uint64_t incoming_end = 0;    // payload offset within the transfer at which the frame ends
    std::uint64_t granted = 0;         // end of the windows granted, within the transfer
    std::uint32_t stepped_over = 0;    // bytes at the front of the lane handed to the mover and not consumed yet
    bool windows_refused = false;      // for this frame and those behind it
    // Receiving what is reduced.
    alignas(16) std::array<std::byte, 16> split_element{};  // an element that lies across Peek's two views
    std::unique_ptr<std::byte[]> aside;                     // with checksums: payload, until it may be reduced
  };

  Result<LaneUse*> UseOf(Rank peer);
  // How many bytes of step `index` its dependencies allow.
  std::uint64_t Limit(std::uint32_t index) const;
  std::uint64_t Released(std::uint32_t index) const;
  // For transfers without bytes, which Limit() cannot order.
  bool DependenciesComplete(std::uint32_t index) const;
  // The chunks of the slice that begins at element `begin` of the vector.
  BlockGrid GridOf(const Plan& plan, std::uint64_t begin) const;
  // Lays the steps over that slice.
  void BeginSlice(std::uint64_t begin, const BlockGrid& grid);
  void BeginNextSlice();
  bool IsLastSlice() const { return slice_end_ == share_.end; }
  // What remains to be done of a queue: of the running slice, or of slices to come.
  bool HasStepsLeft(std::size_t queue) const {
    return queue_head_[queue] < plan_->queues[queue].steps.size() || !IsLastSlice();
  }
  // Where a step stands, all slices taken together; `done`: its bytes done of the running one.
  BlockedStep BlockedStepOf(std::uint32_t index, std::uint64_t done) const;
  // Where a step's bytes begin in one of its buffers, whatever that holds.
  std::byte* Address(const Plan& plan, const BlockGrid& grid, const OperationBuffers& buffers, const PlanStep& step,
                     BufferId buffer, std::uint64_t position) const;

  Result<Progress> Advance(std::uint32_t queue);
  bool Send(std::uint32_t queue, LaneUse& use);
  // The next steps of a queue of sends, as far as they are small and of one run.
  std::span<const std::uint32_t> Together(std::uint32_t queue) const;
  // Whether the steps that a send depends on let it go on: whole if it is small.
  bool MayGoOn(std::uint32_t index) const;
  // Whether a queue of sends that is between frames waits for other steps, not for its peer.
  bool IsHeldBack(std::uint32_t queue) const;
  // Sends them in one call of the lane, and so in one system call, once all may go.
  bool SendTogether(std::span<const std::uint32_t> steps, LaneUse& use);
  // Makes the frame for the header that is `ahead` places after the next one. The frame has begun, and the header is
  // used up, once the lane has taken a byte of it.
  OutgoingFrame MakeFrame(std::uint32_t index, std::uint64_t payload, std::uint64_t offset, std::size_t ahead,
                          LaneUse& use) const;
  void BeginFrame(std::uint32_t index, const OutgoingFrame& frame, std::uint64_t offset, LaneUse& use);
  // The lane took so many bytes of it.
  void TookOfFrame(std::uint32_t index, std::uint64_t bytes, LaneUse& use);
  Result<bool> Receive(std::uint32_t index, LaneUse& use);
  Result<bool> ReadHeader(std::uint32_t index, LaneUse& use);
  void Grant(std::uint32_t index, LaneUse& use);
  bool ReducePayload(std::uint32_t index, LaneUse& use, std::uint64_t end);
  bool FinishFrame(std::uint32_t index, LaneUse& use);

  // With checksums (engine_checked.cc).
  Result<bool> ReceiveChecked(std::uint32_t index, LaneUse& use);
  Result<bool> TakeUnverified(std::uint32_t index, LaneUse& use) const;
  bool ReduceVerified(std::uint32_t index, LaneUse& use);
  bool RunLocally(std::uint32_t index);

  const EngineOptions options_;
  const std::uint32_t frame_bytes_;   // payload of one frame at most
  const std::uint64_t frame_stride_;  // from one full frame to the next
  Endpoint& endpoint_;
  Mover& mover_;
  std::vector<std::unique_ptr<LaneUse>> uses_;  // by peer
  Scratch scratch_;

  const Plan* plan_ = nullptr;
  OperationDescriptor operation_;
  OperationBuffers buffers_;
  Share share_;
  bool plain_buffers_ = true;                           // Plan::has_plain_buffers, and blocks are worked on whole
  std::uint64_t slice_elements_ = 0;                    // of every slice but the last, which may be shorter
  std::uint64_t slice_end_ = 0;                         // of the running one
  std::array<std::byte, kDescriptorBytes> descriptor_;  // the same, for frames
  MoveContext move_;
  std::size_t element_bytes_ = 1;
  std::vector<StepState> steps_;
  std::vector<LaneUse*> queue_use_;        // by queue; null for local copies
  std::vector<std::uint32_t> queue_head_;  // by queue: index into its steps
  std::uint32_t queues_left_ = 0;          // queues with steps left
};

}  // namespace rondo
