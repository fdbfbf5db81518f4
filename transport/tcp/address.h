// What Transport::Address() carries for TCP: who a process is and every address it may be reached at. And the order in
// which a connecting process tries them.
//
// Encoding: docs/WIRE.md, "TCP addresses". Thread rule: values; functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/ip.h"
#include "base/result.h"
#include "transport/tcp/interfaces.h"

namespace rondo::tcp {

inline constexpr std::size_t kMaxCandidates = 32;
inline constexpr std::size_t kMaxNameBytes = 255;      // of host, host id and instance
inline constexpr std::size_t kMaxInterfaceBytes = 32;  // of an interface's name; Linux has 15

struct Candidate {
  SocketAddress at;
  int prefix_bits = 0;
  AddressClass address_class = AddressClass::kGlobal;
  std::string interface;
  std::uint32_t mbps = 0;  // of its wire; 0: unknown

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

struct TcpAddress {
  std::string host;      // for people
  std::string host_id;   // equal on two processes only if they share kernel and network; "" is equal to nothing
  std::string instance;  // new in every process
  std::vector<Candidate> candidates;  // best first

  friend bool operator==(const TcpAddress&, const TcpAddress&) = default;
};

// REQUIRES: at most kMaxCandidates candidates, names of at most kMaxNameBytes. At most kMaxAddressBytes come out.
std::string Encode(const TcpAddress& address);
// kInvalidArgument names what is wrong and at which byte; never allocates more than the text is long.
Result<TcpAddress> DecodeTcpAddress(std::string_view text);

bool SameHost(const TcpAddress& a, const TcpAddress& b);

// One address to try, and why it stands where it stands.
struct Attempt {
  SocketAddress at;
  std::string reason;      // "same host", "same subnet", "routed", "link-local", "loopback"
  std::string interface;   // the local interface that shares the subnet; "" where the routing table decides
  std::string network;     // the peer's interface
  bool anywhere = false;   // the address is valid beyond the link and this machine
  std::uint32_t mbps = 0;  // of the slower of both interfaces, of the peer's where ours is not known; 0: unknown
};

// The candidates of `remote` in the order in which to try them from `self`, whose interfaces are `local`:
//   same host     loopback first, then the others in the order published
//   elsewhere     those in a subnet of ours, then the others, then link-local ones through each of our own links. Of
//                 several networks of a kind the fastest first, where the speeds of all are known.
//                 Loopback only where one of the two did not say which host it is on (it does no harm: the handshake
//                 tells a wrong process), else never.
std::vector<Attempt> OrderAttempts(const TcpAddress& self, const std::vector<LocalAddress>& local,
                                   const TcpAddress& remote);

// Where several networks lead to a peer: why it was reached by the one that it was, and which are the others.
struct NetworkChoice {
  std::string text;  // "the fastest of 2 networks, 100 Gbit/s; also 10.0.0.2 via eth0, 1 Gbit/s"; "": no other
  bool speeds_unknown = false;  // so that another one may be faster
};
// `taken`: the address at which the peer was reached, or from which it reached us.
NetworkChoice DescribeChoice(const std::vector<Attempt>& attempts, const IpAddress& taken);

// Of the published addresses those of several networks, for people: "2 networks: ib0 (100 Gbit/s) before eth0 (1
// Gbit/s)".
// "": there is but one.
NetworkChoice DescribeNetworks(const std::vector<Candidate>& candidates);

// The same for a lane of rail `rail` (transport/rail.h): of the attempts in front that are as good as the first (for
// the same reason, of its family, as fast, loopback like it or not), the one whose turn it is comes first, then the
// others round. Rail 0: as they are.
std::vector<Attempt> InTurn(std::vector<Attempt> attempts, std::uint32_t rail);

// The address to connect to `to` from, of those chosen, `own`: one in whose subnet it lies, that of the rail if several
// are, else the rail's; nullopt: whatever the routing table says, where none was chosen or the way stays on the host.
std::optional<IpAddress> SourceFor(const IpAddress& to, const std::vector<Candidate>& own, std::uint32_t rail);

}  // namespace rondo::tcp
