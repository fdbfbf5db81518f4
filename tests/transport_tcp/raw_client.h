// A client without a transport. It is a plain socket that sends any bytes to a transport's port and receives the
// answer.
#pragma once

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <string>

#include "tests/transport_tcp/world.h"
#include "transport/tcp/address.h"
#include "transport/tcp/socket.h"

namespace rondo::test {

// The address on IPv4 loopback at which the transport listens.
inline RawSocketAddress LoopbackOf(const Transport& transport) {
  const auto address = tcp::DecodeTcpAddress(transport.Address());
  REQUIRE(address);
  for (const tcp::Candidate& candidate : address->candidates)
    if (candidate.at.ip.IsLoopback() && candidate.at.ip.is_v4()) return ToRaw(candidate.at);
  FAIL("no IPv4 loopback address");
  return {};
}

// Makes a blocking connection to a transport on loopback.
inline Fd Call(const Transport& transport) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const RawSocketAddress raw = LoopbackOf(transport);
  REQUIRE(connect(fd.get(), raw.get(), raw.bytes) == 0);
  return fd;
}

inline void Say(const Fd& fd, Bytes bytes) {
  REQUIRE(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

// Returns everything that the other side sends until it closes the connection.
inline std::string Listen(const Fd& fd) {
  std::string received;
  char bytes[4096];
  for (ssize_t got; (got = recv(fd.get(), bytes, sizeof bytes, 0)) > 0;)
    received.append(bytes, static_cast<std::size_t>(got));
  return received;
}

}  // namespace rondo::test
