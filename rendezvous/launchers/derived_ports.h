// Ports on which the ranks of a job meet when nothing can tell them one: all of them derive the same few from the name
// of their job.
//
// Rank 0 takes the first that is free; the others ask at each in turn. A store says whose it is in its answer to the
// first hello, so another job's store, or a foreign server, on one of them is passed over. Within 20000..29999: outside
// Linux's ports for outgoing connections (from 32768), which come and go, and outside Kubernetes' node ports. Where the
// job has a range of ports (RONDO_PORTS), which all its ranks then know, they are of that range.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/net/ports.h"

namespace rondo {

inline constexpr std::size_t kDerivedPorts = 8;

// All different, none of them `avoid`; fewer than kDerivedPorts where the range has fewer.
std::vector<std::uint16_t> DerivedPorts(std::string_view job, std::uint16_t avoid = 0, PortRange ports = {});

}  // namespace rondo
