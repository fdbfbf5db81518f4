// The network interfaces of this machine, and which of their addresses to publish in which order.
//
// All decisions are pure functions on a list of LocalAddress, so that tests can make one up; only EnumerateInterfaces
// asks the machine.
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
  std::uint32_t mbps = 0;  // of the wire, as its driver tells it; 0: unknown

  friend bool operator==(const LocalAddress&, const LocalAddress&) = default;
};

// kResource when the kernel does not answer.
Result<std::vector<LocalAddress>> EnumerateInterfaces();

// That interface as the end of a path: its name, its MTU, and the speed of its wire as its driver tells it, which those
// of virtual ones do not. Nothing of one that is not there. The address is not told.
LinkEnd LinkOf(const std::string& interface);

// The speed of an interface's wire in Mbit/s: what its driver tells, else the rate of the RDMA device on it; of a VLAN,
// bridge or the like that of what it stands on. 0: unknown, as of virtual ones, whose drivers make a number up. `sys`
// is where the system's files are: "/sys".
std::uint32_t MbpsOf(const std::string& interface, const std::string& sys);
std::string DescribeSpeed(std::uint32_t mbps);  // "100 Gbit/s", "speed unknown"

// How good an address is for being reached from elsewhere; the smaller the better.
enum class AddressClass : std::uint8_t {
  kGlobal,     // up, and valid beyond the link
  kVirtual,    // docker*, veth*, br-*, virbr*, cni*, flannel*, cali*: bridges to containers on this machine
  kLinkLocal,  // valid on one link only
  kDown,       // the interface is down or has no carrier
  kLoopback,   // reaches this machine only
};
AddressClass Classify(const LocalAddress& address);
std::string_view Describe(AddressClass address_class);  // "global", "container bridge" ...

// Which interfaces a user wants. Items are separated by commas:
//   "eth"           names that begin with it, or the RDMA device of that very name ("mlx5_0")
//   "=eth0,=ib0"    exact names (one '=' in front of the list holds for the whole list)
//   "10.0.0.0/8"    addresses in that network; a bare address means exactly it
//   "^docker0,lo"   everything but these ('^' in front of the list; "^=eth0" with exact names)
class InterfaceExpression {
 public:
  // kInvalidArgument says what is wrong with which item. "" matches everything.
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

// The addresses to publish, best first: sorted by class; of those that are valid anywhere the fastest, where all their
// speeds are known; IPv4 before IPv6; else in the machine's order.
//   forced       numeric addresses that must be used, in that order; one that no interface has, or that is not numeric,
//                is kInvalidArgument and lists those that exist
//   expression   what to keep of the rest (ignored when `forced` is not empty); nothing left is kInvalidArgument
Result<std::vector<LocalAddress>> ChooseAddresses(const std::vector<LocalAddress>& all,
                                                  const std::vector<std::string>& forced, std::string_view expression);

}  // namespace rondo::tcp
