// A port of this host that is kept from everybody who does not ask for it by its number: bound, and never listened on.
#pragma once

#include <cstdint>
#include <utility>

#include "base/net/fd.h"
#include "base/net/ports.h"
#include "base/result.h"

namespace rondo {

class HeldPort {
 public:
  // One of `ports`, or where these are not set one that the system chooses. kAddressInUse: none is free; kResource.
  static Result<HeldPort> Take(PortRange ports);
  std::uint16_t port() const { return port_; }

 private:
  HeldPort(Fd fd, std::uint16_t port) : fd_(std::move(fd)), port_(port) {}

  // It allows a server beside it that allows it, too (SO_REUSEADDR, as servers do).
  Fd fd_;
  std::uint16_t port_;
};

}  // namespace rondo
