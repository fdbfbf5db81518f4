// Operations on memory of a device, by way of the host's: a vector goes in windows, and three slots of pinned memory
// take turns, so that copies in, the ranks' work and copies out overlap.
//
//   window        0      1      2      3
//   to the host  [====] [====] [====] [====]
//   the ranks           [====] [====] [====] [====]      each an operation on the host's memory, as ever
//   to the device              [====] [====] [====] [====]
//
// What a rank brings may stay where it is, where adapters send it from there: then nothing is copied to the host but
// what the rank itself gets of it.
//
// All ranks cut alike: a window is as many elements of every block as go into window_bytes, whatever each rank brings
// and gets of them. Where blocks have counts of their own not every rank knows all of them, so these go as one.
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

// Memory of the host, from the transport, that the device reaches.
class StagingMemory {
 public:
  // All arguments outlive it.
  static Result<std::unique_ptr<StagingMemory>> Make(Transport& transport, DeviceQueue& queue, std::size_t bytes);
  MutableBytes bytes() const { return memory_->bytes(); }
  // A vector's share of a slot; there are kSlots, for input and for output.
  static constexpr std::uint64_t kSlots = 3;

 private:
  StagingMemory() = default;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<PinnedMemory> pinned_;  // ends before the memory does
};

// How operations are cut. Equal on all ranks.
class StagingWindows {
 public:
  StagingWindows(std::uint64_t window_bytes, int world_size);
  // Of the staging memory that serves the request.
  std::size_t BytesFor(const OperationRequest& request) const;
  // Of every block; the last may be shorter. 0: all as one.
  std::uint64_t ElementsOf(const OperationRequest& request) const;
  std::uint64_t slot_bytes() const { return slot_bytes_; }

 private:
  const std::uint64_t world_size_;
  const std::uint64_t slot_bytes_;  // of one side of a slot
};

// Thread rule: the owner of the endpoint.
class Staging final : public DeviceReader {
 public:
  explicit Staging(const StagingWindows& windows) : windows_(windows) {}

  // Begins what the request says, whose sequence has entered `queue` and whose staging memory is there. Both live until
  // it has ended. REQUIRES: nothing runs.
  void Start(const OperationRequest& request, DeviceQueue& queue);
  // Of a running operation of which nothing has been copied: what it brings is read where it lies. REQUIRES: it is one
  // block.
  void LeaveInput() { input_stays_ = true; }
  // Where the input stays, the next window's; for the movers' copies of it, which are done here.
  Bytes input_of_window() const;
  std::uint64_t Read(std::byte* host, const std::byte* device, std::size_t bytes) override;
  std::uint64_t read() const override { return read_; }
  bool running() const { return whole_ != nullptr; }
  // REQUIRES: running().
  const OperationDescriptor& operation() const { return whole_->descriptor; }
  // Whether the device's stream has come to the operation, as of the last look; and a look. Nothing is copied before.
  bool has_arrived() const { return arrived_; }
  Result<bool> Arrive();
  // REQUIRES: running(), nothing has been copied. The operation has been done in another way.
  void Finish() { whole_ = nullptr; }
  const OperationRequest& request() const { return *whole_; }

  // Moves copies on. kComplete: everything has been copied out. REQUIRES: has_arrived().
  Result<Progress> Poll();
  // The window that is to be run next, on the host's memory; null: none is there. It stays until HasRun.
  Result<const OperationRequest*> Next();
  void HasRun();

  // After an error: no copy touches any memory any more.
  void Drain() noexcept;

 private:
  // A side of the operation: what is copied one way.
  struct Side {
    std::byte* device = nullptr;
    std::uint64_t rows = 0;       // blocks that this rank has there; 0: none
    std::uint64_t pitch = 0;      // bytes from block to block
    std::uint64_t submitted = 0;  // windows
    std::uint64_t before = 0;     // copies that had ended when the operation began
  };
  std::uint64_t ElementsIn(std::uint64_t window) const;
  std::byte* SlotOf(std::uint64_t window, CopyDirection direction) const;
  const std::byte* InputAt(std::uint64_t window) const;
  // A broadcast in place whose root has the result already.
  bool HasResult() const;
  Result<bool> MoveReads();
  Status Submit(CopyDirection direction, Side& side);
  Result<std::uint64_t> Ended(CopyDirection direction, const Side& side) const;

  const StagingWindows windows_;
  const OperationRequest* whole_ = nullptr;
  DeviceQueue* queue_ = nullptr;
  OperationRequest window_;  // what Next gave
  bool given_ = false;
  bool arrived_ = false;
  bool one_side_ = false;         // a slot's input becomes its output
  std::uint64_t elements_ = 0;    // of every block in a window
  std::uint64_t count_ = 0;       // windows
  std::uint64_t run_ = 0;         // windows that the ranks have worked on
  std::uint64_t slot_bytes_ = 0;  // of one side
  Side in_, out_;
  std::array<std::uint64_t, 2> copies_{};  // by direction, submitted ever
  bool input_stays_ = false;
  std::deque<DeviceCopy> reads_;       // that wait for their turn
  std::uint64_t reads_submitted_ = 0;  // of this operation
  std::uint64_t read_ = 0;
};

}  // namespace rondo
