// Operations on GPU memory that are staged through the host's memory. A vector is cut into windows. Each window is
// copied to pinned memory of the host, processed there, and copied back. Three slots of pinned memory are used in
// rotation, so that copies to the host, the ranks' work and copies to the device overlap.
//
//   window        0      1      2      3
//   to the host  [====] [====] [====] [====]
//   the ranks           [====] [====] [====] [====]      each an ordinary operation on the host's memory
//   to the device              [====] [====] [====] [====]
//
// A rank's input may stay in GPU memory if adapters can send it directly. Then only the part that the rank needs for
// its own output is copied to the host.
//
// All ranks cut the vector in the same way: a window has as many elements of every block as fit into window_bytes,
// whichever blocks a rank sends or receives. If blocks have different counts, not every rank knows all of them, so the
// whole vector is one window.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "base/result.h"
#include "collectives/device/reading_mover.h"
#include "collectives/engine/device.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/operation_request.h"
#include "transport/transport.h"

namespace rondo {

// Pinned memory of the host, allocated by the transport, that the device can access.
class StagingMemory {
 public:
  // All arguments must outlive this object.
  static Result<std::unique_ptr<StagingMemory>> Make(Transport& transport, DeviceQueue& queue, std::size_t bytes);
  MutableBytes bytes() const { return memory_->bytes(); }
  // Number of slots. Each has a part for input and a part for output.
  static constexpr std::uint64_t kSlots = 3;

 private:
  StagingMemory() = default;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<PinnedMemory> pinned_;  // must be destroyed before the memory that it pins
};

// How operations are cut into windows. Equal on all ranks.
class StagingWindows {
 public:
  StagingWindows(std::uint64_t window_bytes, int world_size);
  // Size of the staging memory that the request needs.
  std::size_t BytesFor(const OperationRequest& request) const;
  // How many elements of each block a window has; the last window may have fewer. 0: the whole vector is one window.
  std::uint64_t ElementsOf(const OperationRequest& request) const;
  std::uint64_t slot_bytes() const { return slot_bytes_; }

 private:
  const std::uint64_t world_size_;
  const std::uint64_t slot_bytes_;  // size of the input or output part of a slot
};

// Thread rule: the owner of the endpoint.
class Staging final : public DeviceReader {
 public:
  explicit Staging(const StagingWindows& windows) : windows_(windows) {}

  // Starts the request. Its sequence number must have entered `queue`, and its staging memory must exist.
  // `request`, `queue` and the staging memory must live until the operation has ended. REQUIRES: no operation is
  // running.
  void Start(const OperationRequest& request, DeviceQueue& queue);
  // Leaves the input of the running operation in GPU memory, from where it is sent. REQUIRES: nothing has been copied
  // yet; the input is one block.
  void LeaveInput() { input_stays_ = true; }
  // The input of the next window, if the input stays in GPU memory; otherwise empty. Movers copy from it through Read.
  Bytes input_of_window() const;
  std::uint64_t Read(std::byte* host, const std::byte* device, std::size_t bytes) override;
  std::uint64_t read() const override { return read_; }
  bool running() const { return whole_ != nullptr; }
  // REQUIRES: running().
  const OperationDescriptor& operation() const { return whole_->descriptor; }
  // Whether the device's stream has reached the operation. has_arrived() returns the result of the latest check;
  // Arrive() checks now. Nothing is copied before the stream has reached the operation.
  bool has_arrived() const { return arrived_; }
  Result<bool> Arrive();
  // Ends the operation, which the devices have done without staging. REQUIRES: running(), nothing has been copied.
  void Finish() { whole_ = nullptr; }
  const OperationRequest& request() const { return *whole_; }

  // Advances copies. kComplete: all output has been copied to the device. REQUIRES: has_arrived().
  Result<Progress> Poll();
  // The request for the next window, on the host's memory; null: no window is ready. Valid until HasRun.
  Result<const OperationRequest*> Next();
  void HasRun();

  // After an error: returns when no copy uses any memory any more.
  void Drain() noexcept;

 private:
  // One direction of the operation's copies.
  struct Side {
    std::byte* device = nullptr;
    std::uint64_t rows = 0;       // number of this rank's blocks to copy in this direction; 0: none
    std::uint64_t pitch = 0;      // bytes on the device from the start of one block to the start of the next
    std::uint64_t submitted = 0;  // windows submitted so far
    std::uint64_t before = 0;     // number of copies in this direction that had ended when the operation began
  };
  std::uint64_t ElementsIn(std::uint64_t window) const;
  std::byte* SlotOf(std::uint64_t window, CopyDirection direction) const;
  const std::byte* InputAt(std::uint64_t window) const;
  // Whether this is a broadcast in place and this rank is the root, which has the result already.
  bool HasResult() const;
  Result<bool> MoveReads();
  Status Submit(CopyDirection direction, Side& side);
  Result<std::uint64_t> Ended(CopyDirection direction, const Side& side) const;

  const StagingWindows windows_;
  const OperationRequest* whole_ = nullptr;
  DeviceQueue* queue_ = nullptr;
  OperationRequest window_;  // the request that Next returned
  bool given_ = false;
  bool arrived_ = false;
  bool one_side_ = false;         // the output overwrites the input in a slot
  std::uint64_t elements_ = 0;    // number of elements of each block in a window
  std::uint64_t count_ = 0;       // number of windows
  std::uint64_t run_ = 0;         // number of windows that the ranks have processed
  std::uint64_t slot_bytes_ = 0;  // size of the input or output part of a slot
  Side in_, out_;
  std::array<std::uint64_t, 2> copies_{};  // number of copies submitted so far, by direction
  bool input_stays_ = false;
  std::deque<DeviceCopy> reads_;       // not yet submitted
  std::uint64_t reads_submitted_ = 0;  // for this operation
  std::uint64_t read_ = 0;
};

}  // namespace rondo
