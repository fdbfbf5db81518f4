// Parses host names and ports, and finds the addresses of hosts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/net/ip.h"
#include "base/result.h"

namespace rondo {

// "host:port". `host` is a name, an IPv4 address, or an IPv6 address without brackets, which may have a scope
// ("fe80::1%eth0").
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
  // Puts the host in brackets if it contains a colon.
  std::string ToString() const;
};

// Parses "host:port", "10.0.0.1:29500", "[::1]:29500". kInvalidArgument: the message names the wrong part and what is
// expected.
Result<HostPort> ParseHostPort(std::string_view text);

enum class ResolveFor { kConnect, kListen };

// All addresses of a host, of every family, in the resolver's order, without duplicates. An empty host means the
// loopback address for kConnect, and all interfaces for kListen. Numeric addresses need no name server; for names,
// Resolve waits for the name server until `deadline`. kUnreachable: the host was not found in time; the message names
// the host and quotes the resolver.
Result<std::vector<SocketAddress>> Resolve(const HostPort& host_port, ResolveFor purpose, const Clock& clock,
                                           TimePoint deadline);

// Whether this machine has the address, so that a socket can be bound to it.
bool IsLocal(const SocketAddress& address);

}  // namespace rondo
