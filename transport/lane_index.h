// What each of an endpoint's lanes (Endpoint::Open) carries. Both ends of a lane identify it by its index.
//
//   0                                    collectives on the endpoint's first rail
//   kMessageLaneIndex                    sends and receives, also on the first rail
//   LaneOfRail(1 .. kMaxRails - 1)       collectives on the further rails (transport/rail.h)
//   kSharedSegmentLaneIndex              the set-up of the memory that the ranks of one host share (shared_segment.h);
//                                        this lane exists only in the base transport that transport/shm wraps
//
// Thread rule: functions are pure.
#pragma once

#include <cstdint>

#include "transport/rail.h"

namespace rondo {

// Every transport opens any index below this limit, and may refuse higher ones.
inline constexpr std::uint32_t kMaxLanesPerPeer = 1024;

inline constexpr std::uint32_t kMessageLaneIndex = 1;

// The lane index for collectives on the rail that is `rail` rails after the endpoint's first. REQUIRES: rail <
// kMaxRails.
constexpr std::uint32_t LaneOfRail(std::uint32_t rail) { return rail == 0 ? 0 : kMessageLaneIndex + rail; }
// The inverse of LaneOfRail. Returns 0 for an index that LaneOfRail does not return.
constexpr std::uint32_t RailOfLane(std::uint32_t index) {
  return index <= kMessageLaneIndex || index >= LaneOfRail(kMaxRails) ? 0 : index - kMessageLaneIndex;
}

inline constexpr std::uint32_t kSharedSegmentLaneIndex = kMaxLanesPerPeer - 1;
static_assert(kSharedSegmentLaneIndex > LaneOfRail(kMaxRails - 1), "each purpose needs a lane of its own");

}  // namespace rondo
