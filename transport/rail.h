// Rails: parallel paths between two ranks, each with lanes of its own. A large operation is cut into a share for each,
// so that several sockets, ports or networks carry it at once.
//
// A lane's rail is the endpoint's (EndpointConfig::rail) plus what its index says (transport/lane_index.h). Where a
// transport has several ways to a peer (addresses, RDMA ports), rail r takes the r-th of those that are equally good,
// counted round: two ranks with two networks in the same order use both. Where it has one way, rails are several
// connections on it.
#pragma once

#include <cstdint>

namespace rondo {

inline constexpr std::uint32_t kMostRails = 16;

}  // namespace rondo
