// Internet addresses as values, for network interfaces, the addresses that ranks exchange, and messages.
//
// Thread rule: plain values, each for one thread at a time. The functions have no side effects and depend only on their
// arguments, except those that query a socket.
#pragma once

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace rondo {

// An IPv4 or IPv6 address. An IPv4 address mapped into IPv6 (::ffff:a.b.c.d) is always stored as the IPv4 address.
class IpAddress {
 public:
  IpAddress() = default;  // 0.0.0.0
  // REQUIRES: 4 or 16 bytes, in network order. `scope` is the interface index of a link-local IPv6 address.
  static IpAddress FromBytes(Bytes bytes, std::uint32_t scope = 0);
  // "10.0.0.1", "fe80::1", "fe80::1%3" (the scope as a number). nullopt: not a numeric address.
  static std::optional<IpAddress> Parse(std::string_view text);

  bool is_v4() const { return v4_; }
  Bytes bytes() const { return Bytes(bytes_.data(), v4_ ? 4 : 16); }
  std::uint32_t scope() const { return scope_; }
  IpAddress WithScope(std::uint32_t scope) const;

  bool IsLoopback() const;   // 127.0.0.0/8, ::1
  bool IsLinkLocal() const;  // 169.254.0.0/16, fe80::/10

  // Whether the first `prefix_bits` bits are equal. False if one is IPv4 and the other IPv6. Scopes are not compared.
  bool SharesPrefix(const IpAddress& other, int prefix_bits) const;

  std::string ToString() const;
  friend bool operator==(const IpAddress&, const IpAddress&) = default;

 private:
  bool v4_ = true;
  std::array<std::byte, 16> bytes_{};
  std::uint32_t scope_ = 0;
};

struct SocketAddress {
  IpAddress ip;
  std::uint16_t port = 0;

  std::string ToString() const;  // "10.0.0.1:4711", "[fe80::1%3]:4711"
  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
};

// An address in the form that system calls need. An IPv4 address becomes a sockaddr_in, never a mapped IPv6 address.
struct RawSocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
RawSocketAddress ToRaw(const SocketAddress& address);
// Returns nullopt if the address is neither IPv4 nor IPv6.
std::optional<SocketAddress> FromRaw(const sockaddr* address);

// The addresses of a socket's two ends. An end without an Internet address gives 0.0.0.0:0.
SocketAddress LocalSocketAddress(int fd);
SocketAddress PeerSocketAddress(int fd);

}  // namespace rondo
