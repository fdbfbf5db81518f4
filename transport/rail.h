// Rails: parallel paths between two ranks, each with lanes of its own. A large operation is cut into one share per
// rail, so that several sockets, ports or networks carry it at once.
//
// A lane's rail is the endpoint's rail (EndpointConfig::rail) plus the rail of the lane's index
// (transport/lane_index.h). If a transport has n equally good paths to a peer (addresses, RDMA ports), rail r takes
// path r modulo n. So two ranks that list two networks in the same order use both. If there is only one path, the rails
// are several connections on it.
#pragma once

#include <cstdint>

namespace rondo {

inline constexpr std::uint32_t kMaxRails = 16;

}  // namespace rondo
