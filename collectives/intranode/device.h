// Collectives on device memory among ranks of one host: each rank's device reads the other ranks' device memory with
// kernels and copies. No byte passes through the host. The host only signals which rank may go on.
//
// The protocol is that of single_copy.h, with these differences:
//   - Ranks advertise memory as device memory handles (DevicePeers::MemoryHandle).
//   - Then each rank votes whether its device reaches all of that memory. If one device does not, all ranks decline the
//     operation before any memory is touched, and the caller runs it in another way.
//   - A device folds (reduces) its share in one piece, from all ranks' memory at once. So an in-place operation need
//     not save operands first, and the factors of a pre-multiplied sum are applied during the fold.
//
//   rank 0                               rank 1
//   fold a0 + a1 -> own output           fold b0 + b1 -> own output     each its share, from all inputs
//   Counters::folded                     Counters::folded               published when the device has ended the fold
//   copy b from rank 1's output          copy a from rank 0's output
//
// With S bytes and n ranks, each device reads S bytes and writes S/n, and then copies (n - 1)/n S.
//
// For a graph the same protocol runs without device work: the work is recorded in a program (DeviceProgram), and does
// not begin yet. When the graph runs, the devices pass barriers among themselves; ranks advertise the memory for these
// barriers together with their other memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "collectives/engine/device.h"
#include "collectives/engine/engine.h"
#include "collectives/intranode/operation.h"
#include "collectives/intranode/peer_reads.h"
#include "collectives/intranode/segment.h"

namespace rondo {

class DeviceStrategy {
 public:
  // All arguments must outlive this object.
  DeviceStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation, WindowCounts& counts);

  bool Serves(const OperationDescriptor& operation) const;
  // Begins an operation. `scale`: this rank's factor of a pre-multiplied sum. `peers`: this rank's device; null if it
  // cannot take part. `program`: if not null, the work is recorded there and not done. False: the operation has no
  // bytes, so the devices have nothing to do; the caller must use slots.
  bool Begin(double scale, DevicePeers* peers, DeviceProgram* program);

  // Writes handles of this rank's memory into its slot's payload.
  void Advertise(std::byte* payload);
  // Reads what all ranks have advertised in round `round`.
  void ReadAdvertisements(std::uint64_t round);
  // This rank's vote: whether its device reaches the memory of all ranks.
  bool can_reach() const { return state_ == State::kReachable; }
  // Takes the result of the vote. False: the operation is declined.
  bool OnVotes(bool all_can_reach);

  void Start();
  Result<Progress> Poll();
  // Waits until the device no longer uses any memory of the operation.
  void Drain() const;

  bool HasNews() const { return reads_.HasNews(); }
  bool WaitsFor(Rank peer) const { return reads_.WaitsFor(peer); }
  std::uint64_t BytesDone() const { return reads_.BytesDone(); }

  // Whether the latest operation was declined.
  bool declined() const { return state_ == State::kDeclined; }
  // Whether some ranks share a device by time slicing. All ranks learn this in the first operation, and agree on it;
  // before that the result is false.
  bool is_time_sliced() const { return is_time_sliced_.value_or(false); }

 private:
  // The state of the operation. Its final state stays until the next operation begins.
  enum class State : std::uint8_t {
    kAdvertising,  // the other ranks' memory is not known yet
    kReachable,    // this rank's device reaches all memory
    kUnreachable,  // this rank's device does not reach all memory
    kDeclined,     // some rank's device does not reach all memory
    kStarted,      // every rank's device reaches all memory; this rank's reduction has not begun
    kReducing,     // reduction has begun; each copy follows when its source is ready
  };
  struct Advertisement;
  struct PeerMemory {
    const std::byte* input = nullptr;
    const std::byte* output = nullptr;
  };

  Advertisement AdvertisementOf(Rank rank, std::uint64_t round) const;
  bool AdvertiseMemory(Advertisement& own) const;
  bool Open(Rank rank, const Advertisement& theirs);
  bool AnyIsTimeSliced(std::uint64_t round) const;
  Status Reduce();
  // Begins the copies whose sources are ready. False: no source is ready.
  Result<bool> TakeOn();

  const IntranodeSegment& segment_;
  const IntranodeOperation& operation_;
  PeerReads reads_;
  std::vector<PeerMemory> memory_;  // indexed by rank
  std::vector<double> scales_;      // indexed by rank

  DevicePeers* peers_ = nullptr;
  DeviceProgram* program_ = nullptr;
  double scale_ = 1.0;
  State state_ = State::kAdvertising;
  std::uint64_t awaited_ = 0;  // this operation's work is done when DevicePeers::Ended has reached this count
  std::optional<bool> is_time_sliced_;
};

}  // namespace rondo
