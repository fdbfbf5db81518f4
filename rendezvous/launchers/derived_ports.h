// Ports for a job whose launcher names no port. All ranks derive the same few ports from the job's name.
//
// Rank 0 serves the store on the first of these ports that is free; the other ranks try the ports in order. Ranks skip
// the server of another job, because it refuses their hello. They skip a foreign server, because it gives no hello
// reply. If the job has a range of ports (RONDO_PORTS), which all ranks know, the ports are in that range. Otherwise
// they are in 20000..29999. That is outside the range that Linux uses for outgoing connections (from 32768), and
// outside Kubernetes' node ports.
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
