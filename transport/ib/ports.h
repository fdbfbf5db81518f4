// The ports of this machine's RDMA devices, and the choice of ports by the user's text.
//
// The choice is a pure function of a list of ports, so tests can use an invented list. Only EnumeratePorts reads the
// machine's ports.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/ip.h"
#include "base/result.h"
#include "transport/ib/verbs_library.h"
#include "transport/tcp/interfaces.h"
#include "transport/transport.h"

namespace rondo::ib {

// One entry of a port's GID table: a name of the port on the wire (InfiniBand Architecture Specification 1, 4.1.1).
struct Gid {
  enum class Type : std::uint8_t { kInfiniBand, kRoceV1, kRoceV2 };

  int index = 0;
  Type type = Type::kInfiniBand;
  std::array<std::byte, 16> bytes{};
  std::string interface;  // for RoCE: the network interface that has this address

  IpAddress ip() const { return IpAddress::FromBytes(bytes); }  // only for RoCE
  std::string ToString() const;                                 // "RoCE v2 10.0.0.1 (veth0)"
};

struct Port {
  std::string device;  // "mlx5_0"
  int number = 1;
  bool ethernet = false;  // RoCE; otherwise InfiniBand
  bool software = false;  // soft-RoCE: the kernel does the work, without an adapter
  bool active = false;
  std::string state;       // "active", "down (no cable, or the other end is off)", ...
  int mtu_bytes = 0;       // the MTU in use
  int most_mtu_bytes = 0;  // the largest MTU that the device can use
  double line_gbps = 0;    // the speed of the wire in Gbit/s; 0: the device does not report it
  std::uint16_t lid = 0;
  std::vector<Gid> gids;

  std::string Name() const;      // "mlx5_0:1"
  std::string ToString() const;  // one line for `explain`
};

// Describes a port with a GID as the end of a path. The result for InfiniBand has no numeric address.
LinkEnd LinkOf(const Port& port, const Gid& gid);

// All ports of all devices, sorted by name and number; the list may be empty. kResource: a device does not answer; the
// message names it.
Result<std::vector<Port>> EnumeratePorts(const VerbsLibrary& library);

struct ChosenPort {
  Port port;
  Gid gid;
  std::string reason;  // why this port was chosen
};

// Chooses the port and the GID at which peers reach this process.
//   wish        "" (the fastest active port; the first by name among equally fast ones), a device "mlx5_0", a port
//               "mlx5_0:1", or an address "10.0.0.1": the port that has it in a GID, or whose IPoIB interface has it
//   addresses   the addresses of this machine's interfaces, with the RDMA devices of those interfaces
// kInvalidArgument: there is no such device or port; the message lists those that exist. kUnreachable: no port has that
// address, or the port is down; the message has the port's state. kUnsupported: there is no RDMA device.
Result<ChosenPort> ChoosePort(const std::vector<Port>& ports, const std::vector<tcp::LocalAddress>& addresses,
                              std::string_view wish);

// Chooses the ports of this process, in the order in which lanes try them. `wishes` is one wish, or several joined by
// "+" ("mlx5_0+mlx5_1"). The result has the ports of each wish, each port once. Ports that are down are omitted if
// another port is up. "": all active ports, the fastest first. Errors: those of ChoosePort.
Result<std::vector<ChosenPort>> ChoosePorts(const std::vector<Port>& ports,
                                            const std::vector<tcp::LocalAddress>& addresses, std::string_view wishes);

}  // namespace rondo::ib
