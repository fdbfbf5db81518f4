// Rails: parallel paths between two ranks, each with lanes of its own. A large operation is cut into a share for each,
// so that several sockets, ports or networks carry it at once.
//
// A lane's rail is the endpoint's (EndpointConfig::rail) plus the one of its index (transport/lane_index.h). If a
// transport has n equally good ways to a peer (addresses, RDMA ports), rail r takes the way r modulo n: two ranks with
// two networks in the same order use both. If it has one way, rails are several connections on it.
#pragma once

#include <cstdint>

namespace rondo {

inline constexpr std::uint32_t kMostRails = 16;

}  // namespace rondo
