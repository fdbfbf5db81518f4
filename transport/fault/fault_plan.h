// A plan of faults on a transport, as a text and as a value: which fault happens on which lane, at which byte.
//
//   cut@lane(0->1):bytes=4096; stall@lane(1->2):bytes=64,for_ms=50; slice@all:1
//
//   plan  := [fault (";" fault)*]          blanks and line ends around a fault are ignored
//   fault := cut@LANE:bytes=N              the lane breaks when N bytes have been written to it
//          | corrupt@LANE:bytes=N[,bit=B]  one bit of byte N is flipped; without B a random bit
//          | slice@LANE:N                  no call takes, or returns, more than N more bytes
//          | stall@LANE:bytes=N[,for_ms=T] after N bytes no byte is taken for T ms; without T forever
//          | kill@rank(R):bytes=N          InjectorOptions::kill is called when rank R has written N bytes to lanes
//          | drop_control(R->R)[:after=N]  all control messages except the first N are lost
//          | fail_open(R->R):CODE          rank R cannot open a lane to R; CODE as errors print it, such as resource
//   LANE  := all | lane(R->R)[#I]          what the first rank writes to the second; #I: only on lane I
//
// Bytes are counted per lane from its first byte on; `kill` counts the bytes of all lanes of a rank. Ranks are those of
// the endpoint's communicator.
//
// Thread rule: plain values; functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/result.h"

namespace rondo::fault {

enum class FaultKind : std::uint8_t { kCut, kCorrupt, kSlice, kStall, kKill, kDropControl, kFailOpen };

struct Fault {
  FaultKind kind = FaultKind::kCut;
  Rank from = kNoRank;  // kNoRank: every lane ("all"). kKill: the rank
  Rank to = kNoRank;
  std::optional<std::uint32_t> lane = {};    // nullopt: every lane of the pair
  std::uint64_t bytes = 0;                   // the offset; kSlice: the size; kDropControl: how many messages pass first
  std::optional<std::uint32_t> for_ms = {};  // kStall
  std::optional<int> bit = {};               // kCorrupt
  ErrorCode code = ErrorCode::kResource;     // kFailOpen

  bool operator==(const Fault&) const = default;
};

struct FaultPlan {
  std::vector<Fault> faults;
  bool operator==(const FaultPlan&) const = default;
};

// The fault or plan as a text that ParseFaultPlan can read.
std::string ToString(const Fault& fault);
std::string ToString(const FaultPlan& plan);
// kInvalidArgument: the message names the fault, the text at the wrong place, and the expected text.
Result<FaultPlan> ParseFaultPlan(std::string_view text);

struct RandomPlanOptions {
  int world_size = 2;                 // at least 2
  int max_faults = 3;                 // at least 1 is chosen
  std::uint64_t max_bytes = 1 << 20;  // no fault is after that byte of its lane
  bool harmless = false;              // only slices, and stalls that end: every operation must still succeed
  bool kills = false;                 // kKill may be among them
};
// Equal `random` gives equal plans on every machine.
FaultPlan RandomFaultPlan(const RandomPlanOptions& options, Random& random);

}  // namespace rondo::fault
