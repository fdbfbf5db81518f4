// Collectives on memory of devices whose ranks share a host: each rank's device reads what it wants of the others'
// memory, by kernels and copies. No byte passes through the host; it only says which rank may go on.
//
// The protocol is that of single_copy.h, with these differences. Memory is advertised in the devices' own terms
// (DevicePeers::Place). Each rank then says whether its device reaches all of it, and if one does not, all decline the
// operation: it is done in another way, and nothing has happened. A share is folded in one piece, from all ranks'
// memory at once; so in place nothing need move away, and factors of a pre-multiplied sum are applied on the way.
//
//   rank 0                               rank 1
//   fold a0 + a1 -> own output           fold b0 + b1 -> own output     each its share, from all inputs
//   Counters::folded                     Counters::folded               published when the device has ended it
//   copy b from rank 1's output          copy a from rank 0's output
//
// Of S bytes among n ranks each device so reads S and writes S/n, and then copies (n - 1)/n S.
//
// For a graph the same is run without any work of a device: what would be begun is written down as a program, with the
// places where the devices will meet instead of their ranks (DeviceProgram), which are advertised beside the memory.
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
  // All arguments outlive it.
  DeviceStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation, WindowCounts& counts);

  bool Serves(const OperationDescriptor& operation) const;
  // Begins an operation. `scale`: this rank's factor of a pre-multiplied sum. `peers`: this rank's device; null: it can
  // do nothing. `program`: where it is written down instead of being done; null: it is done. False: without bytes there
  // is nothing to do for devices, and slots serve the operation.
  bool Begin(double scale, DevicePeers* peers, DeviceProgram* program);

  // Writes this rank's memory into its slot's payload.
  void Advertise(std::byte* payload);
  // All ranks have advertised, in the round of that number.
  void ReadAdvertisements(std::uint64_t round);
  // Whether this rank's device reaches all memory: its vote.
  bool can_reach() const { return state_ == State::kReachable; }
  // All ranks have voted. False: the operation is declined.
  bool OnVotes(bool all_can_reach);

  void Start();
  Result<Progress> Poll();
  // Returns once the device touches no memory any more.
  void Drain() const;

  bool HasNews() const { return reads_.HasNews(); }
  bool WaitsFor(Rank peer) const { return reads_.WaitsFor(peer); }
  std::uint64_t BytesDone() const { return reads_.BytesDone(); }

  // Whether the last operation was declined.
  bool declined() const { return state_ == State::kDeclined; }
  // Whether some ranks share a device that serves them in time slices, as operations have shown: known alike on all
  // ranks from the first one on.
  bool is_time_sliced() const { return is_time_sliced_.value_or(false); }

 private:
  // What has become of the operation. The last state stays until the next operation begins.
  enum class State : std::uint8_t {
    kAdvertising,  // it is not known yet what memory the other ranks have
    kReachable,    // this rank's device reaches all memory
    kUnreachable,  // it does not
    kDeclined,     // some rank's device does not
    kStarted,      // all ranks' devices do; this rank's share is not folded yet
    kFolding,      // the fold was begun; then copies, each when its source is ready
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
  Status Fold();
  // Begins what may be copied now. False: nothing.
  Result<bool> TakeOn();

  const IntranodeSegment& segment_;
  const IntranodeOperation& operation_;
  PeerReads reads_;
  std::vector<PeerMemory> memory_;  // by rank
  std::vector<double> scales_;      // by rank

  DevicePeers* peers_ = nullptr;
  DeviceProgram* program_ = nullptr;
  double scale_ = 1.0;
  State state_ = State::kAdvertising;
  std::uint64_t awaited_ = 0;  // works of `peers_`, of which so many must have ended
  std::optional<bool> is_time_sliced_;
};

}  // namespace rondo
