// Single copy: for large collectives, ranks read their peers' user memory directly. No data passes through the slots of
// other ranks, and each rank that needs a byte copies or reduces it once (peer_reads.h).
//
// There are two ways to read a peer's memory:
//   - Mapped: memory from Transport::Allocate (regions) is mapped, so operands in it can be used like this rank's own
//     memory.
//   - CMA: all other memory is read by the kernel (SharedSegment::Read). A copy goes directly to its destination;
//     one system call copies several windows. Operands of a reduction are read into this rank's slots,
//     which stay in its cache and which no other rank reads at that time.
//
// All ranks must decide alike whether they use single copy. In a first round each rank advertises its memory and
// whether it can read other ranks' memory. If all memory is in regions, each rank votes in a second round whether it
// could map all of it. Then either all ranks use single copy, or all use slots or the relay. The operation ends with a
// closing round for which all ranks wait. After this round no rank reads a peer's memory.
//
// If an operation fails on a rank, the rank's user may reuse its memory while other ranks may still read it. So the
// failing rank withdraws its memory first. A rank that has read a peer's memory then checks whether the peer has
// withdrawn, like the reader of a sequence lock. If the peer has, the data may be wrong, and the reading rank's
// operation does not complete; the communicator reports the cause. The same happens if the peer's process has ended.
// (One gap remains. If a peer dies in its closing round, a new process of the same user could get its process id at
// once. CMA would then read that process.)
//
// In-place operations are safe. No other rank reads a rank's share of its own vector. A rank overwrites the other
// shares of its vector only after the ranks that reduce those shares have published that they have read them. Other
// collectives never read a block that is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "collectives/engine/engine.h"
#include "collectives/intranode/move_streams.h"
#include "collectives/intranode/operation.h"
#include "collectives/intranode/peer_reads.h"
#include "collectives/intranode/segment.h"

namespace rondo {

class SingleCopyStrategy {
 public:
  // All arguments must outlive this object.
  SingleCopyStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation, MoveStreams& moves,
                     WindowCounts& counts);

  // Whether the operation is worth the round in which ranks advertise their memory. Equal on all ranks.
  bool MayServe() const;
  // Writes the advertisement of this rank's memory to `line`, the first cache line of its slot.
  void Advertise(std::byte* line);
  enum class Outcome : std::uint8_t {
    kRefused,  // the operation cannot use single copy
    kVote,     // all ranks must vote whether they could map all memory (can_map)
    kAgreed,   // all ranks use single copy: call Start
  };
  // Reads what all ranks have advertised in round `round`.
  Outcome ReadAdvertisements(std::uint64_t round);
  bool can_map() const { return can_map_; }
  // Takes the result of the vote.
  Outcome OnVotes(bool all_can_map);

  void Start();
  Result<Progress> Poll();

  bool HasNews() const { return lost_ == kNoRank && reads_.HasNews(); }
  bool WaitsFor(Rank peer) const { return lost_ != kNoRank ? peer == lost_ : reads_.WaitsFor(peer); }
  std::uint64_t BytesDone() const { return reads_.BytesDone(); }
  // How many operations have used single copy.
  std::uint64_t operations() const { return operations_; }

 private:
  struct Advertisement;
  enum class Access : std::uint8_t { kMapped, kRead };
  // Memory of a rank: its address in that rank's process and, if it is mapped, its address in this process.
  struct Memory {
    std::uint64_t remote = 0;
    const std::byte* mapped = nullptr;
  };
  struct PeerMemory {
    Memory input, output;
  };

  bool PaysToRead() const;
  bool PaysToMap() const;
  bool Map(Rank rank, std::uint32_t region, std::uint64_t bytes, Memory& memory) const;
  PeerMemory& memory_of(Rank rank) { return memory_[static_cast<std::size_t>(rank)]; }
  // Continues to reduce the current window of this rank's share. True: the window is reduced.
  Result<bool> FoldOn();
  Result<bool> FetchOperands(Rank rank, std::uint64_t at, std::byte* room, std::uint64_t bytes);
  // Copies some windows of each piece that is ready. Returns the number of windows.
  Result<std::uint64_t> TakeOn();
  Status Read(Rank rank, const Memory& memory, std::uint64_t at, std::byte* destination, std::uint64_t bytes);

  const IntranodeSegment& segment_;
  const IntranodeOperation& operation_;
  MoveStreams& moves_;
  PeerReads reads_;
  std::vector<PeerMemory> memory_;  // indexed by rank

  bool may_read_ = true;   // false if a rank has advertised that it cannot use CMA
  bool can_read_ = false;  // all memory of this operation can be read by CMA, and that is worthwhile
  bool can_map_ = false;   // this rank has mapped all memory of this operation
  bool folds_by_shares_ = false;
  Access access_ = Access::kMapped;
  Rank next_operand_ = kNoRank;  // the rank whose operands of the current window are reduced next
  Rank lost_ = kNoRank;          // a peer whose memory can no longer be read
  std::uint64_t operations_ = 0;
};

}  // namespace rondo
