// Runs one rank's part of one operation. In each direction of each lane the engine works on the next step of that
// direction, moves as many bytes as the dependencies allow, and counts them. An operation that runs in slices
// (slices.h) is one operation to all other code.
//
// The engine is sans-I/O: it never blocks, owns no thread, reads no clock, and uses lanes only through their interface.
// In steady state it allocates nothing: its tables grow to the size of the largest plan and never shrink.
//
// Progress is a byte count. A step that depends on another step may process its byte at position p when the other step
// has passed p. It compares p with the other step's `done` if it reads or overwrites data that the other step writes,
// and with `released` if it overwrites data that the other step sends. A position is an offset in the sequence of all
// blocks (grid.h). It is the same in input, output and scratch, so every kind of dependency needs only one comparison.
// The address of a step's bytes in each buffer is computed once per slice.
//
// Frames are sent and received by collectives/framing, plain or with checksums. With checksums, `done` counts verified
// frames only. So no rank forwards or reduces damaged bytes, or reports them as received, and a rank that needs bytes
// from a rank that has found damage does not complete either (engine_checked.cc).
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
  std::uint32_t rail = 0;               // rail whose lanes the engine uses; the endpoint's first rail is 0
  std::uint32_t frame_bytes = 1 << 20;  // maximum payload of a frame; a multiple of kLineBytes
  // limit; Start fails with kResource if a plan needs more scratch
  std::uint64_t max_scratch_bytes = std::uint64_t{1} << 30;
  Capabilities capabilities;  // what the transport can do
  // Transfers of at least this size use push if the transport can push: the peer writes them straight into the
  // receiver's memory. Smaller transfers use the lane's slots. Both ends decide alike, because options are equal on all
  // ranks.
  std::uint64_t windows_from_bytes = 64 << 10;
  // True: large vectors run in slices if the plan allows it (slices.h). Equal on all ranks.
  bool slices = false;
  // True: frames carry checksums and have at most kMaxCheckedPayload bytes of payload. Equal on all ranks.
  bool checksums = false;
};

// How a transfer's payload reaches the receiver's memory (transport/lane.h).
enum class Placement : std::uint8_t { kSlot, kPush };

// The memory of one operation. The caller must not free or touch it, nor the memory behind `counts`, from Start until
// Poll returns kComplete or, after an error, until Drain returns. Blocks are packed; layout.h says which blocks a
// buffer holds. A pointer is null if its buffer is empty or does not exist on this rank: for example the input of an
// in-place operation, or the output of a gather on a rank that is not the root.
struct OperationBuffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  BlockCounts counts = {};  // set if the operation is `varying`
};

enum class Progress : std::uint8_t {
  kNothing,   // nothing could move
  kMoved,     // something moved; poll again
  kComplete,  // all steps are done and all sent memory is released
};

// The part of every block on which one engine works: the elements begin <= e < end. Other engines work on the rest.
struct Share {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Engine {
 public:
  // All arguments must outlive the engine.
  Engine(const EngineOptions& options, Endpoint& endpoint, Mover& mover);

  // Begins an operation and opens the lanes that it needs. REQUIRES: no operation is running; `plan` lives until the
  // operation ends; `buffers` has counts if and only if `operation.varying`.
  // kResource: the plan needs too much scratch, or a lane could not be made. kOutOfMemory: no memory for scratch. After
  // an error no operation is running.
  Status Start(const Plan& plan, const OperationDescriptor& operation, const OperationBuffers& buffers, double scale) {
    return Start(plan, operation, buffers, scale, {0, operation.elements()});
  }
  // Begins an operation on only the part `share` of every block. `buffers` still describe the whole operation.
  // REQUIRES: `share` is within the count. If `share` is not the whole block, plan.apart must be set and the operation
  // must not be `varying`.
  Status Start(const Plan& plan, const OperationDescriptor& operation, const OperationBuffers& buffers, double scale,
               const Share& share);
  bool running() const { return plan_ != nullptr; }

  // Moves the bytes that can move now. kMismatch: a peer is in another operation, or its transfer does not have the
  // length that this rank expects. kProtocol: a peer sent an invalid frame. kCorrupt: a checksum did not match. After
  // an error the lanes cannot be used any more: the caller must Drain and must not Start again.
  Result<Progress> Poll();

  // Ends the running operation after an error. Returns when nothing touches its memory any more. REQUIRES: the lanes
  // have been revoked.
  void Drain();

  // The steps of the running operation that wait for a peer, oldest first.
  std::vector<BlockedStep> Waiting() const;
  // The first peer that is still needed and whose lane has failed or ended, if there is one.
  struct FailedLane {
    Rank peer = kNoRank;
    const Error* error = nullptr;  // the lane's error; null if the lane ended without one
  };
  std::optional<FailedLane> FindFailedLane() const;
  // Whether the mover is working. When its work is done it wakes no thread, so the caller must poll.
  bool MoverBusy() const;
  // Whether the running operation still has to receive from `peer`.
  bool WaitsFor(Rank peer) const;
  // Looks for frames on lanes from which the running operation expects nothing. Such a frame shows that the peer is in
  // another operation under the same sequence number. Called only when the operation is blocked.
  std::optional<Error> FindMismatchedPeer();

  const OperationDescriptor& operation() const { return operation_; }

 private:
  // One cache line, because the engine reads the states of a step and of its dependencies all the time.
  struct alignas(kLineBytes) StepState {
    std::uint64_t begin = 0;            // position (grid.h) of the step's first byte, in bytes
    std::uint64_t bytes = 0;            // length
    std::uint64_t done = 0;             // payload bytes sent, received, reduced or copied
    std::uint64_t submitted = 0;        // if the step uses the mover: bytes submitted to it, >= done
    std::uint64_t stream_begin = 0;     // if the step sends: stream offset of the first frame's header
    const std::byte* source = nullptr;  // first byte that the step reads; meaningless if it reads none
    std::byte* destination = nullptr;
    Placement placement = Placement::kSlot;
    bool complete = false;  // done == bytes, and the last frame's padding is sent or received
  };

  // The engine's state of a lane: the current frame of each direction. A rank may have many lanes and use each one only
  // briefly, so the fields of one direction share as few cache lines as possible.
  struct alignas(kLineBytes) LaneUse {
    static_assert(kMaxTogether <= FrameSender::kHeaders);
    LaneUse(Lane& lane, std::uint32_t lane_index, bool checksums)
        : sender(lane, checksums), receiver(lane, lane_index, checksums) {}

    Lane& lane() const { return sender.lane(); }
    bool sending_frame() const { return !outgoing.all_sent(); }
    // Two offsets within the transfer: the end of the payload that has arrived (verified or not), and the beginning of
    // the current frame's payload.
    std::uint64_t arrived_end() const { return incoming_end - receiver.payload_left(); }
    std::uint64_t incoming_frame_begin() const { return incoming_end - receiver.payload_bytes(); }

    // Allocates `aside`. Must be called before a recv_reduce step if frames have checksums. Error: kOutOfMemory.
    Status PrepareAside(std::uint32_t frame_bytes);

    // State of the sending direction.
    FrameSender sender;
    OutgoingFrame outgoing;
    std::uint64_t frame_begin = 0;  // payload offset of `outgoing` within its transfer
    // State of the receiving direction.
    alignas(kLineBytes) FrameReceiver receiver;
    std::uint64_t incoming_begin = 0;  // if the transfer uses push: stream offset of its first header
    std::uint64_t incoming_end = 0;    // offset within the transfer at which the current frame's payload ends
    std::uint64_t granted = 0;         // offset within the transfer up to which the peer may push
    // bytes at the front of the lane that were submitted to the mover and are not yet consumed
    std::uint32_t stepped_over = 0;
    bool windows_refused = false;  // the lane accepts no further push targets until this frame has ended
    // State of a recv_reduce step.
    alignas(16) std::array<std::byte, 16> split_element{};  // a copy of an element that spans Peek's two views
    std::unique_ptr<std::byte[]> aside;                     // with checksums: a frame's payload until it is verified
  };

  Result<LaneUse*> UseOf(Rank peer);
  // The number of bytes of step `index` that its dependencies allow it to process.
  std::uint64_t Limit(std::uint32_t index) const;
  std::uint64_t Released(std::uint32_t index) const;
  // Whether all dependencies of step `index` are complete. Used for transfers without bytes, which Limit() cannot
  // order.
  bool DependenciesComplete(std::uint32_t index) const;
  // The grid of chunks of the slice that begins at element `begin` of the vector.
  BlockGrid GridOf(const Plan& plan, std::uint64_t begin) const;
  // Computes the state of every step for the slice that begins at element `begin`.
  void BeginSlice(std::uint64_t begin, const BlockGrid& grid);
  void BeginNextSlice();
  bool IsLastSlice() const { return slice_end_ == share_.end; }
  // Whether steps of a queue remain, in the running slice or in later slices.
  bool HasStepsLeft(std::size_t queue) const {
    return queue_head_[queue] < plan_->queues[queue].steps.size() || !IsLastSlice();
  }
  // The state of a step over all slices together. `done`: the step's bytes done in the running slice.
  BlockedStep BlockedStepOf(std::uint32_t index, std::uint64_t done) const;
  // The address of a step's first byte in one of its buffers. Also works if the buffer is not plain
  // (Plan::has_plain_buffers).
  std::byte* Address(const Plan& plan, const BlockGrid& grid, const OperationBuffers& buffers, const PlanStep& step,
                     BufferId buffer, std::uint64_t position) const;

  Result<Progress> Advance(std::uint32_t queue);
  bool Send(std::uint32_t queue, LaneUse& use);
  // The next sends of a queue that can be sent together: small ones of one run (PlanStep::run).
  std::span<const std::uint32_t> Together(std::uint32_t queue) const;
  // Whether the dependencies of a send let it send more bytes. A small send is sent only as a whole.
  bool MayGoOn(std::uint32_t index) const;
  // For a queue of sends that is between two frames: whether it waits for this rank's own steps, not for its peer.
  bool IsHeldBack(std::uint32_t queue) const;
  // Sends `steps` in one call of the lane, and so in one system call. Sends nothing until all of them can be sent.
  bool SendTogether(std::span<const std::uint32_t> steps, LaneUse& use);
  // Makes a frame without sending it. Its header is the one `ahead` positions after the next free header. When the lane
  // has accepted the first byte of the frame, the frame has begun and its header is in use.
  OutgoingFrame MakeFrame(std::uint32_t index, std::uint64_t payload, std::uint64_t offset, std::size_t ahead,
                          LaneUse& use) const;
  void BeginFrame(std::uint32_t index, const OutgoingFrame& frame, std::uint64_t offset, LaneUse& use);
  // Records that the lane has accepted `bytes` bytes of the current frame.
  void TookOfFrame(std::uint32_t index, std::uint64_t bytes, LaneUse& use);
  Result<bool> Receive(std::uint32_t index, LaneUse& use);
  Result<bool> ReadHeader(std::uint32_t index, LaneUse& use);
  void Grant(std::uint32_t index, LaneUse& use);
  bool ReducePayload(std::uint32_t index, LaneUse& use, std::uint64_t end);
  bool FinishFrame(std::uint32_t index, LaneUse& use);

  // These functions receive frames with checksums (engine_checked.cc).
  Result<bool> ReceiveChecked(std::uint32_t index, LaneUse& use);
  Result<bool> TakeUnverified(std::uint32_t index, LaneUse& use) const;
  bool ReduceVerified(std::uint32_t index, LaneUse& use);
  bool RunLocally(std::uint32_t index);

  const EngineOptions options_;
  const std::uint32_t frame_bytes_;   // maximum payload of a frame
  const std::uint64_t frame_stride_;  // stream bytes of one full frame: header, payload, tail
  Endpoint& endpoint_;
  Mover& mover_;
  std::vector<std::unique_ptr<LaneUse>> uses_;  // indexed by peer
  Scratch scratch_;

  const Plan* plan_ = nullptr;
  OperationDescriptor operation_;
  OperationBuffers buffers_;
  Share share_;
  bool plain_buffers_ = true;         // true: the plan has_plain_buffers, and no block is cut by `share_`
  std::uint64_t slice_elements_ = 0;  // length of a slice; the final slice may be shorter
  std::uint64_t slice_end_ = 0;       // end of the running slice
  std::array<std::byte, kDescriptorBytes> descriptor_;  // operation_, encoded for frames
  MoveContext move_;
  std::size_t element_bytes_ = 1;
  std::vector<StepState> steps_;
  std::vector<LaneUse*> queue_use_;        // by queue: the lane's state; null for local steps
  std::vector<std::uint32_t> queue_head_;  // by queue: index of the current step in the queue's list of steps
  std::uint32_t queues_left_ = 0;          // number of queues that still have steps
};

}  // namespace rondo
