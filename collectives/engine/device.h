// Memory of devices (GPUs) as collectives see it: addresses that no processor may touch, copies between them and pinned
// memory of the host, and streams of the device's own work, among which an operation takes its place. Implemented in
// cuda/, and by the tests in plain memory.
//
// How an operation takes its place on a stream:
//
//   issuer    Enter(stream, 7, ...)  everything on the stream so far comes before operation 7,
//                                    and what is put there from now on waits until 7 has left, if it is to wait
//   owner     HasArrived(7)          the stream has come so far: the operation may read and write its memory
//             Copy(...), Copied()    copies and their ends
//             Leave(7)               what waits on the stream goes on
//
// Nothing else waits for anything: not the device, nor the caller, nor other streams.
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

// Rows of bytes, the same distance apart at each end.
struct DeviceCopy {
  std::byte* host = nullptr;  // pinned
  std::byte* device = nullptr;
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t host_pitch = 0;  // from row to row; of one row nothing
  std::size_t device_pitch = 0;
};

// A fold of vectors of several ranks, element by element from the left: destination = (operand 0 op operand 1) op ...,
// to the bits of collectives/kernels/reduce.h.
struct DeviceFold {
  static constexpr std::size_t kMostOperands = 16;
  std::byte* destination = nullptr;  // may be exactly one of the operands
  std::array<const std::byte*, kMostOperands> operands{};
  std::array<double, kMostOperands> scales{};  // of kPremulSum
  std::size_t count = 0;                       // of operands, at least 1
  std::uint64_t elements = 0;
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;  // not a user's; of kAvg its sum where `divisor` is 0
  int divisor = 0;               // of kAvg: what the fold is divided by
};

// An operation as the ranks' devices do it by themselves, in a graph: all meet, each folds, all meet again if anybody
// folds for others, each copies, and all meet once more, so that memory is its user's again. A meeting ends when the
// graphs of all ranks have come to it.
struct DeviceProgram {
  struct Copy {
    std::byte* destination = nullptr;
    const std::byte* source = nullptr;
    std::uint64_t bytes = 0;
  };
  Sequence operation = 0;
  Rank rank = 0;
  Duration timeout{};              // of each meeting
  std::vector<std::byte*> places;  // by rank: where it is met (DevicePeers::MeetingPlace), as this device reaches it
  std::vector<DeviceFold> folds;
  bool meets_between = false;
  std::vector<Copy> copies;
  std::string declined;  // why nothing of this can be, on no rank; "": it can
};

// Why operations in graphs have come to an end. Where it names nobody some rank's host has ended them, and says why.
struct GraphTrouble {
  struct Stray {
    Rank rank = kNoRank;
    Sequence operation = 0;  // 0: another rank has found it, and knows
  };
  Sequence operation = 0;      // in which it was found
  std::vector<Rank> missing;   // that did not come within the timeout
  std::vector<Stray> strayed;  // that came in another operation
};

// Work of a device on its own memory and on that of other ranks of the host, which it reaches where it lies. Thread
// rule: the owner, as of the queue that it belongs to.
class DevicePeers {
 public:
  virtual ~DevicePeers() = default;

  // Where memory lies, as another rank's Find understands it.
  static constexpr std::size_t kPlaceBytes = 128;
  using Place = std::array<std::byte, kPlaceBytes>;
  // So many bytes of it; null: none. kUnsupported: it cannot be shown, with the reason; so where it is not all of one
  // allocation.
  virtual Result<Place> Show(const std::byte* memory, std::uint64_t bytes) = 0;
  // The address at which this device reaches that memory of another rank. It holds until that rank shows other memory
  // in its place, or this object ends. kUnsupported: the memory cannot be reached from here, with the reason. The same
  // where reaching it needs an idle device and `may_wait` is false: try again after the queue's next Rest.
  virtual Result<std::byte*> Find(const Place& place, bool may_wait) = 0;

  // What is told to other ranks of a device that serves its processes by turns, one at a time; where it serves them
  // side by side, all zeros. Work of two ranks on one such device takes turns unless they are one process.
  struct Server {
    std::array<std::byte, 16> device{};
    std::array<std::uint64_t, 2> process{};
  };
  virtual Server server() const = 0;

  // Where other ranks' devices meet this rank's, to be shown to them; the same at every call. The issuer's; made with
  // the first.
  virtual Result<const std::byte*> MeetingPlace() = 0;

  // What is begun takes effect in order. Memory is lent until it has ended.
  virtual Status Fold(const DeviceFold& fold) = 0;
  virtual Status CopyWithin(std::byte* destination, const std::byte* source, std::uint64_t bytes) = 0;
  // How many of these have been begun, and how many have ended, since there is this.
  virtual std::uint64_t begun() const = 0;
  virtual Result<std::uint64_t> Ended() = 0;
  // Returns once none touches any memory any more. Bounded time.
  virtual void Drain() noexcept = 0;
};

inline bool TakeTurns(const DevicePeers::Server& one, const DevicePeers::Server& other) {
  return one.device != decltype(one.device){} && one.device == other.device && one.process != other.process;
}

// Memory of the host that a device reaches, until this ends.
class PinnedMemory {
 public:
  virtual ~PinnedMemory() = default;
};

// An allocation of a device as adapters are told of it.
struct ExportedMemory {
  DeviceMemory memory;         // all of it
  Fd dma_buf;                  // the descriptor in `memory`, where there is one
  std::uint64_t identity = 0;  // of no other allocation of this process, ever
};

// One communicator's way to one device. IsCaptured, Enter, Check, Pin, Export and IdentityOf are the issuer's,
// everything else is the owner's; what was issued by the one is seen by the other when the operation is.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  virtual std::string_view name() const = 0;  // "GPU 0 (NVIDIA H200)"

  // kInvalidArgument: these bytes, which the call names `what`, are not memory of this device; says whose they are.
  virtual Status Check(const void* memory, std::size_t bytes, std::string_view what) const = 0;
  // Whole pages. It may take until the device has nothing to do: not between Enter and Leave of an operation that
  // nobody else drives. kResource, kOutOfMemory.
  virtual Result<std::unique_ptr<PinnedMemory>> Pin(MutableBytes memory) = 0;
  // The allocation in which `memory` lies, made ready to be sent from where it lies. kUnsupported: it cannot be.
  virtual Result<ExportedMemory> Export(const std::byte* memory) = 0;
  // Of the allocation that lies there now; 0: none does.
  virtual std::uint64_t IdentityOf(const std::byte* memory) const = 0;
  // Whether what is put on the stream becomes part of a graph.
  virtual Result<bool> IsCaptured(DeviceStream stream) const = 0;
  // An error leaves the stream as it was. REQUIRES: the stream is not captured, sequences grow, and at most as many as
  // were told to Open have not left.
  virtual Status Enter(DeviceStream stream, Sequence sequence, bool waits) = 0;

  virtual Result<bool> HasArrived(Sequence sequence) = 0;
  // Those of one direction end in their order. The memory is lent until then. At most kMostCopies of a direction are
  // under way.
  static constexpr std::size_t kMostCopies = 8;
  virtual Status Copy(CopyDirection direction, const DeviceCopy& copy) = 0;
  // How many of a direction have ended, since there is this queue.
  virtual Result<std::uint64_t> Copied(CopyDirection direction) = 0;
  // For this operation and all before it.
  virtual void Leave(Sequence sequence) noexcept = 0;
  // Any thread. For all that have entered and all that ever will, whatever leaves later: for the error path, after
  // Drain where that can be waited for. Calls no driver. What is asked for from now on is refused (kAborted); a call
  // that the driver holds at this moment may touch memory until it has come back, which Drain waits for.
  virtual void LeaveForGood() noexcept = 0;
  // Returns once no copy touches any memory any more. Bounded time.
  virtual void Drain() noexcept = 0;

  // Puts an operation on a stream that is captured. The issuer's. Its memory, this queue and all that was shown or
  // found for it are lent as long as a launch of the graph may be under way. REQUIRES: peers() is not null.
  virtual Status Capture(DeviceStream stream, const DeviceProgram& program) = 0;
  // Any thread. What has ended operations in graphs, if anything has; from then on they do nothing.
  virtual std::optional<GraphTrouble> TroubleOfGraphs() const = 0;
  // Any thread. From now on operations in graphs do nothing, and those that wait no longer do.
  virtual void EndGraphs() noexcept = 0;

  // What this device does on memory of ranks of its host; null: nothing, with the reason in `why`. Made with the first
  // call, which is the issuer's: like Pin it may take until the device has nothing to do. Lives as long as the queue.
  virtual DevicePeers* peers(std::string& why) = 0;
  // Does what needs an idle device and was put off. The issuer calls it when no operation is between Enter and Leave.
  virtual void Rest() = 0;
};

// Those that this process can reach. Thread rule: any thread.
class Device {
 public:
  virtual ~Device() = default;
  // To the device on which `memory` lies; where that is null, to the one whose the stream is; where that is the default
  // one, to the one that the calling thread uses. kUnsupported says why there is none; kInvalidArgument: it is no
  // memory of a device.
  virtual Result<std::unique_ptr<DeviceQueue>> Open(const void* memory, DeviceStream stream,
                                                    std::size_t most_operations) = 0;
};

}  // namespace rondo
