// A shared segment: memory that all ranks of an endpoint have mapped. Each rank has a part that only this rank writes
// and all ranks read (collectives/intranode/intranode_path.h). An endpoint has a shared segment only if all its ranks
// share one host.
//
// All ranks make it together: every rank asks for it (Endpoint::OpenSharedSegment) and then polls until its state is
// final. The final state is the same on all ranks. No rank may use the segment before that state is kReady.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/result.h"

namespace rondo {

// The largest number of ranks for a shared segment. A larger world on one host uses lanes instead.
inline constexpr int kMaxSharedSegmentRanks = 64;

// Names a piece of a rank's memory to other ranks.
struct MemoryPlace {
  std::uint32_t region = 0;   // the region (Transport::Allocate) that contains the whole piece; 0: none
  std::uint64_t address = 0;  // the address of the piece in its owner's process
};

enum class SharedSegmentState : std::uint8_t {
  kMaking,
  kReady,  // all ranks have mapped the segment, and may use it
  kNone,   // no rank has it; SharedSegment::why() says why
};

class SharedSegment {
 public:
  virtual ~SharedSegment() = default;
  virtual SharedSegmentState state() const = 0;
  virtual const std::string& why() const = 0;
  // Why this rank can neither make the segment, nor agree with the other ranks to do without one. Null: there was no
  // such error.
  virtual const Error* failure() const = 0;
  // While the segment is being made: the ranks from which this rank has not received an answer yet.
  virtual std::vector<Rank> Missing() const = 0;
  // A rank's part, aligned to pages and zeroed when the segment was made. Only that rank writes there. REQUIRES:
  // kReady.
  virtual MutableBytes part(Rank rank) = 0;
  // Wakes all sleeping ranks, because they may wait for what the caller has just published (memory_order_release).
  // Cheap if none sleeps.
  virtual void WakeWaiters() = 0;

  // ---- single copy: reads other ranks' memory in place; every call REQUIRES kReady ----
  // LetGoOfFreed, RegionOf, Show and Find are for mapped regions. LetGoOfFreed unmaps regions that other ranks have
  // freed. A pointer from Find is valid until the next LetGoOfFreed.
  virtual void LetGoOfFreed() = 0;
  // The number of this rank's region that contains all of `memory`; 0: there is none.
  virtual std::uint32_t RegionOf(Bytes memory) = 0;
  // Passes a region of this rank to all others. It must be called before this rank publishes the region's number.
  // False: this is not possible now, but may be later.
  virtual bool Show(std::uint32_t region) = 0;
  // Another rank's memory, mapped here for reading; null: it cannot be mapped.
  virtual const std::byte* Find(Rank rank, const MemoryPlace& place, std::uint64_t bytes) = 0;

  // CanRead, CanBeRead and Read are for memory outside of mapped regions. The kernel copies such memory (CMA). CanRead:
  // whether the kernel lets this rank read the memory of all other ranks. The answer never changes after the state has
  // become kReady.
  virtual bool CanRead() const = 0;
  // Whether other ranks can read all of `memory`, provided that they may read this rank's memory at all. Cheap if the
  // same memory is checked again.
  virtual bool CanBeRead(Bytes memory) = 0;
  // Copies a rank's memory at `address` to `into`. REQUIRES: CanRead(). kPeerLost: the process of `rank` has ended.
  // kResource: the memory at `address` cannot be read. kInvalidArgument: `into` cannot be written.
  virtual Status Read(Rank rank, std::uint64_t address, MutableBytes into) = 0;
};

}  // namespace rondo
