// Ports for a job whose ranks cannot be given a port: all ranks derive the same few ports from the job's name.
//
// Rank 0 serves the store on the first free one; the other ranks try each of them in order. A store refuses the hello
// of another job, and a foreign server gives no hello reply. So ranks pass over both. If the job has a range of ports
// (RONDO_PORTS), which all ranks know, the ports are of that range. Otherwise they are in 20000..29999. That is outside
// Linux's range for outgoing connections (from 32768), which change all the time, and outside Kubernetes' node ports.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/net/ports.h"

namespace rondo {

inline constexpr std::size_t kDerivedPorts = 8;

// The ports differ from each other and from `avoid`. They are fewer than kDerivedPorts if the range has fewer.
std::vector<std::uint16_t> DerivedPorts(std::string_view job, std::uint16_t avoid = 0, PortRange ports = {});

}  // namespace rondo
