// TCP ports: ranges as users write them, listening on a port of a range, and why a port is not available.
//
// A process can listen on a port that another socket uses as its local port, as long as no socket listens there and
// both sockets set SO_REUSEADDR. So every socket of Rondo sets SO_REUSEADDR, even sockets that only connect. The system
// may have given such a socket the port that a server needs next. Without the option, its closed connection (TIME-WAIT)
// would block the port for a minute.
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

// The ports on which a process may listen. If not set, the system chooses any port.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  bool IsSet() const { return first != 0; }
  int count() const { return last - first + 1; }
  std::string ToString() const;  // "29500-29599", "29500"; "" if not set
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

// Parses "29500-29599" or "29500", ports from 1 to 65535. kInvalidArgument: "expected FIRST-LAST, ...".
Result<PortRange> ParsePortRange(std::string_view text);

// The range from which the system chooses ports (net.ipv4.ip_local_port_range). Not set: the range is unknown.
PortRange EphemeralPorts();

// The sockets of this network namespace that have a given port as their local port.
struct PortUse {
  bool known = false;      // the system reports how the port is used
  bool listens = false;    // a socket listens on the port
  bool connected = false;  // connections use the port
  int lingering = 0;       // closed connections that still occupy the port, for up to a minute (TIME-WAIT)
};
PortUse UseOfPort(std::uint16_t port);
// Like UseOfPort, but takes the concatenated texts of /proc/net/tcp and /proc/net/tcp6.
PortUse UseOfPortIn(std::string_view tables, std::uint16_t port);

struct ListenRequest {
  SocketAddress address;       // the address, with the wanted port; port 0 means one of `ports`
  PortRange ports = {};        // not set: a port that the system chooses
  bool both_families = false;  // for an IPv6 address: also accepts connections over IPv4
  int backlog = 0;
  std::function<void(int)> prepare = nullptr;  // sets options of the socket before it is bound
  // If only closed connections (TIME-WAIT) occupy the wanted port, ListenOnPort tries again until this time.
  TimePoint until{};
  std::shared_ptr<const Clock> clock = nullptr;  // null: the machine's clock
};

// Returns a listening socket that does not block. The errors name the address. kAddressInUse: the message says what
// uses the port, or which range is used up. kInvalidArgument: this machine does not have the address, or the user lacks
// permission for the port. kUnsupported: the machine lacks the address family. kResource: a limit was reached.
Result<Fd> ListenOnPort(const ListenRequest& request);

// Sets SO_REUSEADDR, so that a server may listen on this socket's local port. Call it before bind or connect.
void LetPortBeReused(int fd);

// Whether a connected socket is its own peer. This happens if no process listens on the port of a connect, and the
// system chooses that same port as the socket's local port.
bool IsConnectedToItself(int fd);
// Makes the next close abortive, so that the connection does not remain in TIME-WAIT.
void MakeCloseAbortive(int fd);

// Explains why a connect found no local port (EADDRNOTAVAIL), and names the range of ports. Returns "" if ports are
// available, because then the error has another cause.
std::string WhyNoLocalPort(int family);

}  // namespace rondo
