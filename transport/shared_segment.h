// A shared segment: memory that all ranks of an endpoint have mapped, a part for each to write and for all to read
// (collectives/intranode/intranode_path.h). Only endpoints whose ranks all share one host have one.
//
// Making it is collective: every rank asks for it (Endpoint::OpenSharedSegment) and then polls until its state is
// final, which is the same on all ranks. Nobody uses it before.
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

// Most ranks of a shared segment. A larger world on one host uses lanes.
inline constexpr int kMaxSharedSegmentRanks = 64;

// Where memory of a rank lies.
struct MemoryPlace {
  std::uint32_t region = 0;   // the shared one (Transport::Allocate) that holds all of it
  std::uint64_t address = 0;  // in its rank's process
};

enum class SharedSegmentState : std::uint8_t {
  kMaking,
  kReady,  // on all ranks
  kNone,   // on no rank; SharedSegment::why() says why
};

class SharedSegment {
 public:
  virtual ~SharedSegment() = default;
  virtual SharedSegmentState state() const = 0;
  virtual const std::string& why() const = 0;
  // Not null: it can neither be made nor be done without; on this rank alone.
  virtual const Error* failure() const = 0;
  // While it is being made: who has not answered yet, as far as this rank knows.
  virtual std::vector<Rank> Missing() const = 0;
  // Of a rank, zeroed when the shared segment was made, aligned to pages; that rank writes there, all read. REQUIRES:
  // kReady.
  virtual MutableBytes part(Rank rank) = 0;
  // Wakes the ranks that sleep and may wait for what was just published (memory_order_release). Cheap where nobody
  // does.
  virtual void WakeWaiters() = 0;

  // ---- others' memory, read where it lies; REQUIRE: kReady ----
  // Regions, which others map.
  // Lets go of what other ranks have freed. What Find gave is good until the next call of this.
  virtual void LetGoOfFreed() = 0;
  // Which of this rank's all of `memory` lies in; 0: none.
  virtual std::uint32_t RegionOf(Bytes memory) = 0;
  // Shows a region of this rank to all others, before they are told its number. False: it cannot be done, at present.
  virtual bool Show(std::uint32_t region) = 0;
  // Where another rank's memory lies here, for reading; null: it cannot be mapped here.
  virtual const std::byte* Find(Rank rank, const MemoryPlace& place, std::uint64_t bytes) = 0;

  // Other memory, through the kernel. Whether this rank may read that of all others; fixed since it is ready.
  virtual bool CanRead() const = 0;
  // Whether others can read all of this rank's `memory`, if they may. Cheap where the same is asked again and again.
  virtual bool CanBeRead(Bytes memory) = 0;
  // REQUIRES: CanRead(). kPeerLost: that process is no more. kResource: what lies there cannot be read.
  // kInvalidArgument: `into` cannot be written.
  virtual Status Read(Rank rank, std::uint64_t address, MutableBytes into) = 0;
};

}  // namespace rondo
