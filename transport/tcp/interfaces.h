// The network interfaces of this machine, and which of their addresses to publish in which order.
//
// All decisions are pure functions of a list of LocalAddress, so that tests can invent one. Only EnumerateInterfaces
// reads the machine's interfaces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/ip.h"
#include "base/result.h"
#include "transport/transport.h"

namespace rondo::tcp {

// One address of one interface.
struct LocalAddress {
  std::string interface;             // "eth0"
  std::vector<std::string> devices;  // RDMA devices on that interface: "mlx5_0"
  IpAddress ip;
  int prefix_bits = 0;     // length of its subnet's prefix
  bool up = true;          // up and with carrier
  std::uint32_t mbps = 0;  // of the wire, as its driver reports it; 0: unknown

  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};

// kResource: the kernel does not answer.
Result<std::vector<LocalAddress>> EnumerateInterfaces();

// An interface as the end of a path: its name, its MTU, and the speed of its wire as its driver reports it (drivers of
// virtual interfaces do not). Its address stays empty. If the interface does not exist, LinkEnd is empty.
LinkEnd LinkOf(const std::string& interface);

// The speed of an interface's wire in Mbit/s: as its driver reports it, or the rate of its RDMA device. A VLAN, bridge
// or the like has the speed of the interface below it. 0: unknown, also for virtual interfaces, because their drivers
// invent a number. `sys`: the folder of the system's files, "/sys".
std::uint32_t MbpsOf(const std::string& interface, const std::string& sys);
std::string DescribeSpeed(std::uint32_t mbps);  // "100 Gbit/s", "speed unknown"

// How good an address is for connections from other hosts; smaller is better.
enum class AddressClass : std::uint8_t {
  kGlobal,     // up, and valid beyond the link
  kVirtual,    // docker*, veth*, br-*, virbr*, cni*, flannel*, cali*: bridges to containers on this machine
  kLinkLocal,  // valid on one link only
  kDown,       // the interface is down or has no carrier
  kLoopback,   // reaches this machine only
};
AddressClass Classify(const LocalAddress& address);
std::string_view Describe(AddressClass address_class);  // "global", "container bridge" ...

// The user's selection of interfaces. Commas separate its items:
//   "eth"           names that begin with it, or the RDMA device of that very name ("mlx5_0")
//   "=eth0,=ib0"    exact names (one '=' in front of the list applies to the whole list)
//   "10.0.0.0/8"    addresses in that network; a bare address means exactly it
//   "^docker0,lo"   all except these ('^' in front of the list; "^=eth0" with exact names)
class InterfaceExpression {
 public:
  // kInvalidArgument names the item and what is wrong with it. "" matches every interface.
  static Result<InterfaceExpression> Parse(std::string_view text);
  bool Matches(const LocalAddress& address) const;

 private:
  struct Item {
    std::string name;
    bool exact = false;
    bool network = false;
    IpAddress ip;
    int prefix_bits = 0;
  };
  bool exclude_ = false;
  std::vector<Item> items_;
};

// The addresses to publish, best first: sorted by class; among those that are valid anywhere the fastest first, if all
// their speeds are known; IPv4 before IPv6; otherwise in the machine's order.
//   forced       numeric addresses that must be used, in that order. kInvalidArgument: one is not numeric, or no
//                interface has it; the message lists those that exist
//   expression   what to keep of the rest (ignored if `forced` is not empty). kInvalidArgument: no address is left
Result<std::vector<LocalAddress>> ChooseAddresses(const std::vector<LocalAddress>& all,
                                                  const std::vector<std::string>& forced, std::string_view expression);

}  // namespace rondo::tcp
