// A reserved port of this host. It is bound and never listened on, so the system assigns it to no program that did not
// ask for this number.
#pragma once

#include <cstdint>
#include <utility>

#include "base/net/fd.h"
#include "base/net/ports.h"
#include "base/result.h"

namespace rondo {

class HeldPort {
 public:
  // Binds a port of `ports`, or one that the system chooses if `ports` is not set. kAddressInUse: none is free;
  // kResource.
  static Result<HeldPort> Take(PortRange ports);
  std::uint16_t port() const { return port_; }

 private:
  HeldPort(Fd fd, std::uint16_t port) : fd_(std::move(fd)), port_(port) {}

  // Has SO_REUSEADDR set: a server that sets it too, as servers do, can listen on the port.
  Fd fd_;
  std::uint16_t port_;
};

}  // namespace rondo
