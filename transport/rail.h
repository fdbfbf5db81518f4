// Rails: parallel paths between two ranks, each with lanes of its own. A large operation is cut into a share for each,
// so that several sockets, ports or networks carry it at once.
//
// A lane's rail is the endpoint's (EndpointConfig::rail) plus what its index says. Where a transport has several ways
// to a peer (addresses, RDMA ports), rail r takes the r-th of those that are equally good, counted round: two ranks
// with two networks in the same order use both. Where it has one way, rails are several connections on it.
//
// Thread rule: functions are pure.
#pragma once

#include <cstdint>

namespace rondo {

inline constexpr std::uint32_t kMostRails = 16;

// Of an endpoint's lanes, index 0 carries collectives and index 1 messages, both on its first rail; collectives on the
// rails beyond have the indices after.
inline constexpr std::uint32_t kMessageLaneIndex = 1;

// Where collectives go on the rail that is `rail` behind the endpoint's first. REQUIRES: rail < kMostRails.
constexpr std::uint32_t LaneOfRail(std::uint32_t rail) { return rail == 0 ? 0 : kMessageLaneIndex + rail; }
// The other way round; of any lane that is not of these, 0.
constexpr std::uint32_t RailOfLane(std::uint32_t index) {
  return index <= kMessageLaneIndex || index >= LaneOfRail(kMostRails) ? 0 : index - kMessageLaneIndex;
}

}  // namespace rondo
