// base/net/resolve and base/net/ip: hosts, ports and numeric addresses in text.
#include <algorithm>

#include "base/net/ip.h"
#include "base/net/resolve.h"
#include "base/printable.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::net_address_fuzz {

void CheckHostPort(std::string_view input) {
  const Result<HostPort> parsed = ParseHostPort(input);
  CheckError(parsed);
  if (!parsed) return;
  RONDO_HOLDS(!parsed->host.empty() && parsed->host.size() <= 255);
  const Result<HostPort> again = ParseHostPort(parsed->ToString());
  RONDO_HOLDS(again && again->host == parsed->host && again->port == parsed->port, "'{}'", parsed->ToString());
  // getaddrinfo would stop at a zero byte, and resolve a host other than the given one.
  RONDO_HOLDS(std::none_of(parsed->host.begin(), parsed->host.end(), [](unsigned char c) { return c <= ' '; }));
}

void CheckIp(std::string_view input) {
  const std::optional<IpAddress> ip = IpAddress::Parse(input);
  if (!ip) return;
  const std::string text = ip->ToString();
  RONDO_HOLDS(IpAddress::Parse(text) == ip, "'{}'", text);
  RONDO_HOLDS(IpAddress::FromBytes(ip->bytes(), ip->scope()) == *ip);
  for (const int bits : {-1, 0, 1, 31, 32, 33, 127, 128, 129, 255}) RONDO_HOLDS(ip->SharesPrefix(*ip, bits));
  RONDO_HOLDS(!ip->is_v4() || ip->scope() == 0);
  const SocketAddress address{*ip, 4711};
  RONDO_HOLDS(FromRaw(ToRaw(address).get()) == address);
}

Corpus HarnessCorpus() {
  return {
      .seeds = {"10.0.0.1:29500", "[::1]:29500", "[fe80::1%eth0]:1", "node-1.cluster:65535", "a:65536", "[::1]29500",
                "::1", "fe80::1%3", "::ffff:10.0.0.1", "fe80::1%4294967295", "255.255.255.255", "[[]:1", "a b:1"},
      .words = {"[", "]:", "%", "::", ".255", "65535"}};
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  CheckHostPort(input);
  CheckIp(input);
  allocations.CheckLargest(4096 + 64 * input.size());
}

}  // namespace rondo::fuzz::net_address_fuzz
