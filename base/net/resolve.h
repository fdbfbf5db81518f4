// Host names and ports in text, and the addresses that they stand for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/net/ip.h"
#include "base/result.h"

namespace rondo {

// "host:port". The host is a name, an IPv4 address, or an IPv6 address without its brackets; it may carry a scope
// ("fe80::1%eth0").
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
  // With brackets where the host has colons.
  std::string ToString() const;
};

// Reads "host:port", "10.0.0.1:29500", "[::1]:29500". kInvalidArgument names the part that is wrong and what is wanted.
Result<HostPort> ParseHostPort(std::string_view text);

enum class ResolveFor { kConnect, kListen };

// All addresses of a host, of every family, in the resolver's order, without doubles. kConnect: an empty host means the
// loopback. kListen: it means every interface. The answer of a name server is awaited until `deadline` at most
// (kUnreachable names the host and says what the resolver said); numbers are read at once.
Result<std::vector<SocketAddress>> Resolve(const HostPort& host_port, ResolveFor purpose, const Clock& clock,
                                           TimePoint deadline);

// Whether this machine has the address: something can be bound to it.
bool IsLocal(const SocketAddress& address);

}  // namespace rondo
