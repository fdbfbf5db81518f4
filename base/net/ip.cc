#include "base/net/ip.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/check.h"

namespace rondo {
namespace {

constexpr std::array<unsigned char, 12> kMappedPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

unsigned At(Bytes bytes, std::size_t index) { return std::to_integer<unsigned>(bytes[index]); }

SocketAddress Named(int fd, int (*call)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  if (call(fd, reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) return {};
  return FromRaw(reinterpret_cast<const sockaddr*>(&storage)).value_or(SocketAddress{});
}

}  // namespace

IpAddress IpAddress::FromBytes(Bytes bytes, std::uint32_t scope) {
  RONDO_CHECK(bytes.size() == 4 || bytes.size() == 16);
  if (bytes.size() == 16 && std::memcmp(bytes.data(), kMappedPrefix.data(), kMappedPrefix.size()) == 0) {
    bytes = bytes.subspan(12);
  }
  IpAddress address;
  address.v4_ = bytes.size() == 4;
  std::copy(bytes.begin(), bytes.end(), address.bytes_.begin());
  address.scope_ = address.v4_ ? 0 : scope;
  return address;
}

std::optional<IpAddress> IpAddress::Parse(std::string_view text) {
  std::uint32_t scope = 0;
  const std::size_t percent = text.find('%');
  if (percent != std::string_view::npos) {
    const std::string_view number = text.substr(percent + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), scope);
    if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  }
  const std::string host(text.substr(0, percent));
  std::array<std::byte, 16> bytes{};
  if (percent == std::string_view::npos && inet_pton(AF_INET, host.c_str(), bytes.data()) == 1) {
    return FromBytes(Bytes(bytes).first(4));
  }
  if (inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1) return FromBytes(bytes, scope);
  return std::nullopt;
}

IpAddress IpAddress::WithScope(std::uint32_t scope) const {
  IpAddress copy = *this;
  copy.scope_ = v4_ ? 0 : scope;
  return copy;
}

bool IpAddress::IsLoopback() const {
  if (v4_) return At(bytes(), 0) == 127;
  static constexpr std::array<unsigned char, 16> kOne{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return std::memcmp(bytes_.data(), kOne.data(), kOne.size()) == 0;
}

bool IpAddress::IsLinkLocal() const {
  if (v4_) return At(bytes(), 0) == 169 && At(bytes(), 1) == 254;
  return At(bytes(), 0) == 0xfe && (At(bytes(), 1) & 0xc0u) == 0x80;
}

bool IpAddress::SharesPrefix(const IpAddress& other, int prefix_bits) const {
  if (v4_ != other.v4_) return false;
  const int bits = std::clamp(prefix_bits, 0, v4_ ? 32 : 128);
  const std::size_t whole = static_cast<std::size_t>(bits / 8);
  if (!std::equal(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(whole), other.bytes_.begin())) {
    return false;
  }
  if (bits % 8 == 0) return true;
  const unsigned mask = (0xffu << (8 - bits % 8)) & 0xffu;
  return (At(bytes_, whole) & mask) == (At(other.bytes_, whole) & mask);
}

std::string IpAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(v4_ ? AF_INET : AF_INET6, bytes_.data(), text, sizeof text);
  return scope_ == 0 ? std::string(text) : fmt::format("{}%{}", text, scope_);
}

std::string SocketAddress::ToString() const {
  return ip.is_v4() ? fmt::format("{}:{}", ip.ToString(), port) : fmt::format("[{}]:{}", ip.ToString(), port);
}

RawSocketAddress ToRaw(const SocketAddress& address) {
  RawSocketAddress raw;
  if (address.ip.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    std::memcpy(&v4.sin_addr, address.ip.bytes().data(), 4);
    std::memcpy(&raw.storage, &v4, sizeof v4);
    raw.bytes = sizeof v4;
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    std::memcpy(&v6.sin6_addr, address.ip.bytes().data(), 16);
    v6.sin6_scope_id = address.ip.scope();
    std::memcpy(&raw.storage, &v6, sizeof v6);
    raw.bytes = sizeof v6;
  }
  return raw;
}

std::optional<SocketAddress> FromRaw(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    return SocketAddress{IpAddress::FromBytes(std::as_bytes(std::span(&v4.sin_addr, 1))), ntohs(v4.sin_port)};
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, address, sizeof v6);
    return SocketAddress{IpAddress::FromBytes(std::as_bytes(std::span(&v6.sin6_addr, 1)), v6.sin6_scope_id),
                         ntohs(v6.sin6_port)};
  }
  return std::nullopt;
}

SocketAddress LocalSocketAddress(int fd) { return Named(fd, getsockname); }
SocketAddress PeerSocketAddress(int fd) { return Named(fd, getpeername); }

}  // namespace rondo
