// A plan of faults on a transport, as a text and as a value. It says which fault happens on which lane, at which byte.
//
//   cut@lane(0->1):bytes=4096; stall@lane(1->2):bytes=64,for_ms=50; slice@all:1
//
//   plan  := [fault (";" fault)*]          blanks and line ends around a fault are ignored
//   fault := cut@LANE:bytes=N              the lane breaks when N bytes have been written to it
//          | corrupt@LANE:bytes=N[,bit=B]  one bit of byte N is flipped; without B a random bit
//          | slice@LANE:N                  no call takes more than N bytes, or returns more than N new bytes
//          | stall@LANE:bytes=N[,for_ms=T] after N bytes no byte is taken for T ms; without T forever
//          | kill@rank(R):bytes=N          InjectorOptions::kill is called when rank R has written N bytes to lanes
//          | drop_control(R->R)[:after=N]  all control messages except the first N are lost
//          | fail_open(R->R):CODE          the first rank cannot open a lane to the second, with the error code CODE
//   LANE  := all | lane(R->R)[#I]          what the first rank writes to the second; #I: only on lane I
//
// Bytes are counted per lane, from its first byte; `kill` counts the bytes of all lanes of a rank. CODE is the
// name of an ErrorCode as errors print it, such as resource. Ranks are those of the endpoint's communicator.
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
  Rank from = kNoRank;  // kNoRank: every lane ("all"); for kKill: the rank that is killed
  Rank to = kNoRank;
  std::optional<std::uint32_t> lane = {};  // nullopt: every lane of the pair
  // The byte offset at which the fault happens. For kSlice: the size of a slice. For kDropControl: how many messages
  // pass before the first is lost.
  std::uint64_t bytes = 0;
  std::optional<std::uint32_t> for_ms = {};  // for kStall: how long no byte is taken; nullopt: forever
  std::optional<int> bit = {};               // for kCorrupt: the bit to flip; nullopt: a random bit
  ErrorCode code = ErrorCode::kResource;     // only for kFailOpen

  bool operator==(const Fault&) const = default;
};

struct FaultPlan {
  std::vector<Fault> faults;
  bool operator==(const FaultPlan&) const = default;
};

// The fault or plan as a text that ParseFaultPlan can read.
std::string ToString(const Fault& fault);
std::string ToString(const FaultPlan& plan);
// kInvalidArgument: the message names the fault, the unexpected text, and the text that was expected.
Result<FaultPlan> ParseFaultPlan(std::string_view text);

struct RandomPlanOptions {
  int world_size = 2;                 // at least 2
  int max_faults = 3;                 // the plan has between 1 and max_faults faults
  std::uint64_t max_bytes = 1 << 20;  // every fault is at or before this byte of its lane
  bool harmless = false;  // true: the plan has only slices and stalls that end, so every operation must still succeed
  bool kills = false;     // true: the plan may have kKill
};
// A random plan. If `random` has the same state, the plan is the same on every machine.
FaultPlan RandomFaultPlan(const RandomPlanOptions& options, Random& random);

}  // namespace rondo::fault
