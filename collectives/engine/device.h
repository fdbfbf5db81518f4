// The interface to devices (GPUs). It covers device memory, which the CPU must not touch; copies between device memory
// and pinned host memory; and streams, which order each operation among the user's work. cuda/ implements the
// interface; the tests implement it in plain memory.
//
// How an operation is ordered on a stream:
//
//   issuer    Enter(stream, 7, ...)  operation 7 begins after all work that is on the stream now;
//                                    if `waits`, work that is added later begins after Leave(7)
//   owner     HasArrived(7)          true if that earlier work is done: the operation may read and write its memory
//             Copy(...), Copied()    begin copies and count those that have ended
//             Leave(7)               the stream's later work may begin
//
// Nothing else waits: neither the device, nor the caller, nor other streams.
//
// Roles in thread rules: the issuer is the thread that issues operations; the owner is the thread that makes progress
// (it holds the progress lock).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/ids.h"
#include "base/net/fd.h"
#include "base/reduce_op.h"
#include "base/result.h"
#include "collectives/engine/device_stream.h"
#include "transport/device_memory.h"

namespace rondo {

enum class CopyDirection : std::uint8_t { kToHost, kToDevice };

// A copy of `rows` rows of `row_bytes` bytes each. On each side the rows have a fixed distance, the pitch.
struct DeviceCopy {
  std::byte* host = nullptr;  // pinned host memory
  std::byte* device = nullptr;
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t host_pitch = 0;  // bytes from one row to the next; ignored if there is one row
  std::size_t device_pitch = 0;
};

// An ordered (left-fold) reduction of the vectors of several ranks, element by element:
// destination = (operand 0 op operand 1) op ... The result is bitwise equal to that of collectives/kernels/reduce.h.
struct DeviceReduce {
  static constexpr std::size_t kMaxOperands = 16;
  std::byte* destination = nullptr;  // may equal one of the operands; must not overlap one in part
  std::array<const std::byte*, kMaxOperands> operands{};
  std::array<double, kMaxOperands> scales{};  // for kPremulSum: the factor of each operand
  std::size_t count = 0;                      // number of operands, at least 1
  std::uint64_t elements = 0;
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;  // never a user-defined operation; kAvg with `divisor` 0 computes the sum
  int divisor = 0;               // the number by which kAvg divides the sum
};

// An operation that the devices of the ranks run without their hosts, as part of a graph:
//   1. All ranks pass a barrier. A barrier ends when the graphs of all ranks have reached it.
//   2. Each rank runs its `reductions`.
//   3. If `has_middle_barrier`, because some rank reduces for other ranks, all ranks pass a barrier.
//   4. Each rank runs its `copies`.
//   5. All ranks pass a barrier. Then the memory belongs to its user again.
struct DeviceProgram {
  struct Copy {
    std::byte* destination = nullptr;
    const std::byte* source = nullptr;
    std::uint64_t bytes = 0;
  };
  Sequence operation = 0;
  Rank rank = 0;
  Duration timeout{};  // limit for each barrier
  // Each rank's barrier state (DevicePeers::BarrierState), as this device addresses it.
  std::vector<std::byte*> barrier_states;
  std::vector<DeviceReduce> reductions;
  bool has_middle_barrier = false;
  std::vector<Copy> copies;
  std::string declined;  // why no rank can run this program; "": every rank can
};

// Why operations in graphs have failed. If `missing` and `strayed` are empty, the process of some rank has ended these
// operations, and that process reports the reason.
struct GraphFailure {
  struct Stray {
    Rank rank = kNoRank;
    // The operation that `rank` is in. 0: it is unknown here, because another rank found the mismatch.
    Sequence operation = 0;
  };
  Sequence operation = 0;      // the operation in which the failure was found
  std::vector<Rank> missing;   // ranks that did not reach the barrier within the timeout
  std::vector<Stray> strayed;  // ranks that reached the barrier in another operation
};

// Lets a device work on its own memory and, without a copy, on the device memory of other ranks of the host. Thread
// rule: only the owner of its DeviceQueue calls these functions, unless a comment below says otherwise.
class DevicePeers {
 public:
  virtual ~DevicePeers() = default;

  // A handle names exported memory (of CUDA IPC, for example). Export makes a handle of this rank's memory, and another
  // rank opens the handle with Open.
  static constexpr std::size_t kMemoryHandleBytes = 128;
  using MemoryHandle = std::array<std::byte, kMemoryHandleBytes>;
  // Exports `bytes` bytes at `memory`. If `memory` is null, the handle names no memory. kUnsupported, with the reason:
  // the memory cannot be exported, for example because it spans more than one allocation.
  virtual Result<MemoryHandle> Export(const std::byte* memory, std::uint64_t bytes) = 0;
  // Returns the address at which this device reaches another rank's exported memory. The address is valid until that
  // rank exports other memory in its place, or until this object ends. kUnsupported, with the reason: this device
  // cannot reach the memory, or opening it needs an idle device and `may_wait` is false. In the second case the caller
  // may try again after the queue's next RunIdleCleanup.
  virtual Result<std::byte*> Open(const MemoryHandle& handle, bool may_wait) = 0;

  // Identifies a device that time-slices: it runs the work of one process at a time. `device` is all zeros if the
  // device runs several processes side by side. Ranks exchange this value. Two ranks on one time-sliced device share
  // its time unless they are in one process.
  struct TimeSlicedGpu {
    std::array<std::byte, 16> device{};
    std::array<std::uint64_t, 2> process{};
  };
  virtual TimeSlicedGpu time_sliced_gpu() const = 0;

  // Returns the memory through which the ranks' devices pass barriers (DeviceProgram). The caller must export this
  // memory to the other ranks. The first call allocates the memory; later calls return the same address. Called by the
  // issuer.
  virtual Result<const std::byte*> BarrierState() = 0;

  // Reduce and CopyWithin begin work. Work takes effect in the order in which it was begun. The caller must not free or
  // touch the memory until the work has ended.
  virtual Status Reduce(const DeviceReduce& reduction) = 0;
  virtual Status CopyWithin(std::byte* destination, const std::byte* source, std::uint64_t bytes) = 0;
  // begun() counts the calls of Reduce and CopyWithin that have begun work since construction. Ended() counts those
  // whose work has ended.
  virtual std::uint64_t begun() const = 0;
  virtual Result<std::uint64_t> Ended() = 0;
  // Returns when no work of Reduce or CopyWithin touches memory any more. Takes bounded time.
  virtual void Drain() noexcept = 0;
};

// Whether the work of two ranks shares the time of one time-sliced device.
inline bool IsTimeSliced(const DevicePeers::TimeSlicedGpu& one, const DevicePeers::TimeSlicedGpu& other) {
  return one.device != decltype(one.device){} && one.device == other.device && one.process != other.process;
}

// Host memory that a device can access until this object ends.
class PinnedMemory {
 public:
  virtual ~PinnedMemory() = default;
};

// A device allocation in the form in which network adapters register it.
struct ExportedMemory {
  DeviceMemory memory;         // the whole allocation
  Fd dma_buf;                  // owns the descriptor in `memory`, if there is one
  std::uint64_t identity = 0;  // unique among all allocations of this process, past ones included
};

// One communicator's access to one device. Thread rule: the issuer calls IsCaptured, Enter, Check, Pin, Export and
// IdentityOf; the owner calls everything else, unless a comment below says otherwise. When the owner sees an operation,
// it also sees what the issuer has done for that operation.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  virtual std::string_view name() const = 0;  // "GPU 0 (NVIDIA H200)"

  // kInvalidArgument: the bytes are not memory of this device. The message calls them `what` and says whose memory they
  // are.
  virtual Status Check(const void* memory, std::size_t bytes, std::string_view what) const = 0;
  // Pins `memory`, which must be whole pages. The call may block until the device is idle. So it must not be made
  // between Enter and Leave of an operation that no other thread advances. Errors: kResource, kOutOfMemory.
  virtual Result<std::unique_ptr<PinnedMemory>> Pin(MutableBytes memory) = 0;
  // Exports the allocation that contains `memory`, so that an adapter can send from it without a copy. kUnsupported:
  // that is not possible.
  virtual Result<ExportedMemory> Export(const std::byte* memory) = 0;
  // The identity of the allocation that contains `memory` now; 0 if there is none.
  virtual std::uint64_t IdentityOf(const std::byte* memory) const = 0;
  // Whether the stream is being captured into a graph.
  virtual Result<bool> IsCaptured(DeviceStream stream) const = 0;
  // Orders operation `sequence` behind the work that is on the stream now. If `waits`, later work of the stream waits
  // until the operation has left. After an error the stream is unchanged. REQUIRES: the stream is not captured;
  // sequences grow; at most `most_operations` (Device::Open) operations have entered and not left.
  virtual Status Enter(DeviceStream stream, Sequence sequence, bool waits) = 0;

  // Whether the work before operation `sequence` on its stream is done.
  virtual Result<bool> HasArrived(Sequence sequence) = 0;
  // Begins a copy. Copies in one direction end in the order in which they began. The caller must not free or touch the
  // memory until the copy has ended. REQUIRES: fewer than kMaxCopies copies in this direction are under way.
  static constexpr std::size_t kMaxCopies = 8;
  virtual Status Copy(CopyDirection direction, const DeviceCopy& copy) = 0;
  // How many copies in `direction` have ended since this queue was made.
  virtual Result<std::uint64_t> Copied(CopyDirection direction) = 0;
  // Releases the streams that wait for this operation or for an earlier one.
  virtual void Leave(Sequence sequence) noexcept = 0;
  // Any thread. Releases all streams that wait now, and lets no stream wait later. This is for the error path. If the
  // caller can wait for Drain, it calls Drain first. The call does not enter the driver. Later requests are refused
  // (kAborted). If another thread is inside a driver call now, that call may touch memory until it returns; Drain waits
  // for it.
  virtual void ReleaseAllStreams() noexcept = 0;
  // Returns when no copy touches memory any more. Takes bounded time.
  virtual void Drain() noexcept = 0;

  // Adds an operation to a stream that is being captured. Called by the issuer. As long as a launch of the graph may be
  // under way, these must stay valid: the operation's memory, this queue, and all memory exported or opened for the
  // operation. REQUIRES: peers() is not null.
  virtual Status Capture(DeviceStream stream, const DeviceProgram& program) = 0;
  // Any thread. Returns why operations in graphs have failed; nothing if they have not. After a failure, such
  // operations do nothing when launched.
  virtual std::optional<GraphFailure> FindGraphFailure() const = 0;
  // Any thread. From now on operations in graphs do nothing, and operations that wait in a barrier stop waiting.
  virtual void EndGraphs() noexcept = 0;

  // The interface to the memory of other ranks of this host. Null, with the reason in `why`: this device cannot reach
  // such memory. The issuer makes the first call, which creates the object and, like Pin, may block until the device is
  // idle. The object lives as long as the queue.
  virtual DevicePeers* peers(std::string& why) = 0;
  // Does postponed work that needs an idle device. The issuer calls it when no operation is between Enter and Leave.
  virtual void RunIdleCleanup() = 0;
};

// The devices that this process can use. Thread rule: any thread.
class Device {
 public:
  virtual ~Device() = default;
  // Makes a queue to the device that holds `memory`. If `memory` is null, the device is that of `stream`. If `stream`
  // is then the default stream, the device is the calling thread's current one. `most_operations` limits how many
  // operations may have entered and not left. kUnsupported: there is no device, and the message says why.
  // kInvalidArgument: `memory` is not device memory.
  virtual Result<std::unique_ptr<DeviceQueue>> Open(const void* memory, DeviceStream stream,
                                                    std::size_t most_operations) = 0;
};

}  // namespace rondo
