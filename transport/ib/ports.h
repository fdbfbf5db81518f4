// The ports of this machine's RDMA devices, and which of them a user's words mean.
//
// Choosing is a pure function on a list of ports, so that tests can make one up; only EnumeratePorts asks the machine.
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
  std::string interface;  // of RoCE: the network interface whose address it is

  IpAddress ip() const { return IpAddress::FromBytes(bytes); }  // of RoCE
  std::string ToString() const;                                 // "RoCE v2 10.0.0.1 (veth0)"
};

struct Port {
  std::string device;  // "mlx5_0"
  int number = 1;
  bool ethernet = false;  // RoCE; else InfiniBand
  bool software = false;  // soft-RoCE: no adapter, the kernel's
  bool active = false;
  std::string state;       // "active", "down (no cable, or the other end is off)", ...
  int mtu_bytes = 0;       // in use
  int most_mtu_bytes = 0;  // that the device can
  double line_gbps = 0;    // 0: the device does not say
  std::uint16_t lid = 0;
  std::vector<Gid> gids;

  std::string Name() const;      // "mlx5_0:1"
  std::string ToString() const;  // one line for `explain`
};

// That port under that name as the end of a path. InfiniBand has no numeric address.
LinkEnd LinkOf(const Port& port, const Gid& gid);

// All ports of all devices, by name and number. None is no error. kResource: a device does not answer, by name.
Result<std::vector<Port>> EnumeratePorts(const VerbsLibrary& library);

struct ChosenPort {
  Port port;
  Gid gid;
  std::string reason;  // why it and not another
};

// The port and the GID by which this process is reached.
//   wish        "" (the fastest active port, first by name among equals), a device "mlx5_0", a port "mlx5_0:1", or an
//               address "10.0.0.1": the port that has it in a GID, or whose IPoIB interface has it
//   addresses   of this machine's interfaces, with their devices
// kInvalidArgument: there is no such device or port; it lists what there is. kUnreachable: no port has that address, or
// what is meant is down, and in which state it is. kUnsupported: there is no RDMA device.
Result<ChosenPort> ChoosePort(const std::vector<Port>& ports, const std::vector<tcp::LocalAddress>& addresses,
                              std::string_view wish);

// The ports of this process in the order in which lanes are to try them: those of each of the wishes in `wishes`, which
// "+" joins ("mlx5_0+mlx5_1"), once each, without those that are down while another is not; of "" all that are active,
// the fastest first. Errors as above.
Result<std::vector<ChosenPort>> ChoosePorts(const std::vector<Port>& ports,
                                            const std::vector<tcp::LocalAddress>& addresses, std::string_view wishes);

}  // namespace rondo::ib
