// Ports of TCP: a range of them as users write it, listening on one of a range, and what keeps a port from being had.
//
// A port that some socket uses as its local one can still be listened on, as long as nothing listens there and both
// sockets allow it (SO_REUSEADDR). So every socket of ours allows it, those that connect too: the system may have given
// them the very port that a server is about to take, and what they leave behind (TIME-WAIT) would keep it for a minute.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/net/fd.h"
#include "base/net/ip.h"
#include "base/result.h"

namespace rondo {

// The ports on which a process may listen. Not set: any that the system chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  bool IsSet() const { return first != 0; }
  int count() const { return last - first + 1; }
  std::string ToString() const;  // "29500-29599", "29500"; "" where it is not set
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

// "29500-29599" or "29500", of 1 to 65535. kInvalidArgument: "wants FIRST-LAST, ...".
Result<PortRange> ParsePortRange(std::string_view text);

// The range from which the system takes ports that no program chose (net.ipv4.ip_local_port_range). Not set: unknown.
PortRange EphemeralPorts();

// Which sockets of this network namespace have a port as their local one.
struct PortUse {
  bool known = false;      // the system tells
  bool listens = false;    // a socket listens on it
  bool connected = false;  // connections use it
  int lingering = 0;       // connections that have ended use it for up to a minute (TIME-WAIT)
};
PortUse UseOfPort(std::uint16_t port);
// The same of the texts of /proc/net/tcp and tcp6, one behind the other.
PortUse UseOfPortIn(std::string_view tables, std::uint16_t port);

struct ListenRequest {
  SocketAddress address;       // its port is the one wanted; 0: one of `ports`
  PortRange ports = {};        // not set: one that the system chooses
  bool both_families = false;  // of an IPv6 address: takes connections over IPv4, too
  int backlog = 0;
  std::function<void(int)> prepare = nullptr;  // sets options of the socket before it is bound
  // Until when a wanted port is tried again while nothing is in the way but connections that have ended (TIME-WAIT).
  TimePoint until{};
  std::shared_ptr<const Clock> clock = nullptr;  // null: the machine's
};

// A listening socket that does not block. The errors name the address: kAddressInUse says what has the port, or which
// range is used up; kInvalidArgument: this machine has no such address, or the user may not take the port;
// kUnsupported: the machine lacks the family; kResource: a limit.
Result<Fd> ListenOnPort(const ListenRequest& request);

// Allows others to listen on the local port of this socket. Before it is bound or connected.
void LetPortBeReused(int fd);

// Whether a connected socket is its own peer: where nothing listens on a port, a connect to it succeeds when the system
// picks that very port as the local one.
bool IsConnectedToItself(int fd);
// Makes the coming close abortive, so that nothing of the connection lingers (TIME-WAIT).
void MakeCloseAbortive(int fd);

// Why a connect found no local port (EADDRNOTAVAIL), with the range; "": there are ports, so that was not the reason.
std::string WhyNoLocalPort(int family);

}  // namespace rondo
