// The network interfaces of this machine, and a choice of the addresses to publish, with their order.
//
// All decisions are pure functions of a list of LocalAddress, so tests can use an invented list. Only
// EnumerateInterfaces reads the machine's interfaces.
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
  std::vector<std::string> devices;  // RDMA devices on that interface, such as "mlx5_0"
  IpAddress ip;
  int prefix_bits = 0;     // length of its subnet's prefix
  bool up = true;          // the interface is up and has a carrier
  std::uint32_t mbps = 0;  // the speed of the wire in Mbit/s, as the interface's driver reports it; 0: unknown

  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};

// The addresses of all interfaces of this machine. kResource: the kernel does not answer.
Result<std::vector<LocalAddress>> EnumerateInterfaces();

// Describes an interface as the end of a path: its name, its MTU, and the speed of its wire as its driver reports it
// (drivers of virtual interfaces report none). The result's address stays empty. If the interface does not exist, the
// result is empty.
LinkEnd LinkOf(const std::string& interface);

// The speed of an interface's wire in Mbit/s: what its driver reports, or the rate of its RDMA device. A VLAN, bridge
// or similar interface has the speed of the fastest interface below it. 0: unknown. The speed of any other virtual
// interface (veth) is always unknown, because its driver invents a number. `sys`: the folder of the system's files,
// "/sys".
std::uint32_t MbpsOf(const std::string& interface, const std::string& sys);
std::string DescribeSpeed(std::uint32_t mbps);  // "100 Gbit/s", "speed unknown"

// How good an address is for connections from other hosts; smaller is better.
enum class AddressClass : std::uint8_t {
  kGlobal,     // up, and valid beyond the link
  kVirtual,    // docker*, veth*, br-*, virbr*, cni*, flannel*, cali*, podman*: bridges to containers on this machine
  kLinkLocal,  // valid on one link only
  kDown,       // the interface is down or has no carrier
  kLoopback,   // reaches this machine only
};
AddressClass Classify(const LocalAddress& address);
std::string_view Describe(AddressClass address_class);  // "global", "container bridge" ...

// The user's selection of interfaces. Commas separate its items:
//   "eth"           interfaces whose names begin with "eth", or the RDMA device with exactly that name ("mlx5_0")
//   "=eth0,=ib0"    interfaces with exactly these names (one '=' at the start applies to the whole list)
//   "10.0.0.0/8"    addresses in that network; an address without '/' matches only itself
//   "^docker0,lo"   all except these ('^' at the start of the list; "^=eth0" for exact names)
class InterfaceExpression {
 public:
  // kInvalidArgument: the message names the item, and what is wrong with it. "" matches every interface.
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

// Returns the addresses to publish, best first. They are sorted by class. Within kGlobal, the fastest are first if the
// speeds of all kGlobal addresses are known. Then IPv4 precedes IPv6. Addresses that are equal in all this keep the
// machine's order.
//   forced       numeric addresses that must be used, in this order. kInvalidArgument: one is not numeric, or no
//                interface has it; the message lists those that exist
//   expression   selects among all addresses (ignored if `forced` is not empty). kInvalidArgument: none is selected
Result<std::vector<LocalAddress>> ChooseAddresses(const std::vector<LocalAddress>& all,
                                                  const std::vector<std::string>& forced, std::string_view expression);

}  // namespace rondo::tcp
