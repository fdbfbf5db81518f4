// Large collectives straight from the memory that ranks bring to the call: nothing passes through slots, and each byte
// is copied or folded once by each rank that wants it (peer_reads.h).
//
// Memory of peers comes in two ways. Regions (Transport::Allocate) are mapped, and operands in them as good as one's
// own. All else is read through the kernel (CMA, SharedSegment::Read): what is copied goes straight to its place; what
// is folded passes through the payloads of this rank's slots, which stay in its cache, and which no rank reads then. A
// system call copies several windows.
//
// All ranks must see alike whether it can be done. In a first round each advertises where its memory is and whether it
// can read that of others. If all memory is in regions, each says in a second round whether it could map all of it.
// Then it is done this way, or by slots or relay. At the end comes a round after which no rank reads any peer's memory:
// all wait for it.
//
// A rank whose operation fails gives its memory back to its user while others may still read it. So it withdraws first,
// and a rank that has read checks whether it has (like the reader of a sequence lock): what was read may then be
// something else, and the operation never ends. The rank learns the reason by other ways, also if the peer's process
// has ended. (A process of the same user that got the number of one that died in its closing round could be read
// instead, if it began at once.)
//
// In place a rank's share of its own vector is read by no other rank, and the shares it copies into were read by the
// ranks that fold them before they said so. Other collectives read no block that is written.
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
  // All arguments outlive it.
  SingleCopyStrategy(const IntranodeSegment& segment, const IntranodeOperation& operation, MoveStreams& moves,
                     WindowCounts& counts);

  // Whether an operation is worth the round in which all find out. Alike on all ranks.
  bool MayServe() const;
  // Writes this rank's memory into its slot's first line.
  void Advertise(std::byte* line);
  enum class Outcome : std::uint8_t {
    kRefused,  // it cannot be done this way
    kVote,     // all ranks must say whether they could map all memory (can_map)
    kAgreed,   // Start is next
  };
  // All ranks have advertised, in the round of that number.
  Outcome ReadAdvertisements(std::uint64_t round);
  bool can_map() const { return can_map_; }
  // All ranks have voted.
  Outcome OnVotes(bool all_can_map);

  void Start();
  Result<Progress> Poll();

  bool HasNews() const { return lost_ == kNoRank && reads_.HasNews(); }
  bool WaitsFor(Rank peer) const { return lost_ != kNoRank ? peer == lost_ : reads_.WaitsFor(peer); }
  std::uint64_t BytesDone() const { return reads_.BytesDone(); }
  // How many operations have been started this way.
  std::uint64_t operations() const { return operations_; }

 private:
  struct Advertisement;
  enum class Access : std::uint8_t { kMapped, kRead };
  // Memory of a rank: an address in its process and, if it is mapped, one here.
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
  // Goes on with this rank's window of the fold. True: it is folded.
  Result<bool> FoldOn();
  Result<bool> FetchOperands(Rank rank, std::uint64_t at, std::byte* room, std::uint64_t bytes);
  // Copies some windows of each piece that is ready. Returns how many.
  Result<std::uint64_t> TakeOn();
  Status Read(Rank rank, const Memory& memory, std::uint64_t at, std::byte* destination, std::uint64_t bytes);

  const IntranodeSegment& segment_;
  const IntranodeOperation& operation_;
  MoveStreams& moves_;
  PeerReads reads_;
  std::vector<PeerMemory> memory_;  // by rank

  bool may_read_ = true;   // all ranks can, as far as they have told each other
  bool can_read_ = false;  // the memory of this operation, and it pays
  bool can_map_ = false;   // this rank all of it
  bool folds_by_shares_ = false;
  Access access_ = Access::kMapped;
  Rank next_operand_ = kNoRank;  // of the window that is being folded: whose operands are next
  Rank lost_ = kNoRank;          // a peer whose memory is gone
  std::uint64_t operations_ = 0;
};

}  // namespace rondo
