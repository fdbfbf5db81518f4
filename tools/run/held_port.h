// A reserved port of this host. The port is bound, but this process never listens on it. So the system gives the port
// only to programs that ask for its number.
#pragma once

#include <cstdint>
#include <utility>

#include "base/net/fd.h"
#include "base/net/ports.h"
#include "base/result.h"

namespace rondo {

class HeldPort {
 public:
  // Binds a free port of `ports`. If `ports` is not set, the system chooses the port. kAddressInUse: no port is free.
  // kResource: no socket could be created.
  static Result<HeldPort> Take(PortRange ports);
  std::uint16_t port() const { return port_; }

 private:
  HeldPort(Fd fd, std::uint16_t port) : fd_(std::move(fd)), port_(port) {}

  // The bound socket. SO_REUSEADDR is set on it, so a server that also sets this option, as most servers do, can listen
  // on the port.
  Fd fd_;
  std::uint16_t port_;
};

}  // namespace rondo
