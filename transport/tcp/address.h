// The contents of Transport::Address() for TCP: the identity of a process, and all addresses at which it can be
// reached. This file also defines the order in which a connecting process tries these addresses.
//
// Encoding: docs/WIRE.md, "TCP addresses". Thread rule: plain values; functions are pure.
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
inline constexpr std::size_t kMaxNameBytes = 255;      // the longest host, host_id or instance
inline constexpr std::size_t kMaxInterfaceBytes = 32;  // the longest name of an interface; Linux allows 15

struct Candidate {
  SocketAddress at;
  int prefix_bits = 0;
  AddressClass address_class = AddressClass::kGlobal;
  std::string interface;
  std::uint32_t mbps = 0;  // the speed of the interface's wire in Mbit/s; 0: unknown

  friend bool operator==(const Candidate&, const Candidate&) = default;
};

struct TcpAddress {
  std::string host;      // the host's name, for messages
  std::string host_id;   // equal on two processes only if they share kernel and network; "": this host equals no other
  std::string instance;  // different in every process
  std::vector<Candidate> candidates;  // best first

  friend bool operator==(const TcpAddress&, const TcpAddress&) = default;
};

// REQUIRES: at most kMaxCandidates candidates, and names of at most kMaxNameBytes. The result has at most
// kMaxAddressBytes.
std::string Encode(const TcpAddress& address);
// kInvalidArgument: the message says what is wrong and at which byte. Never allocates more bytes than the text has.
Result<TcpAddress> DecodeTcpAddress(std::string_view text);

bool SameHost(const TcpAddress& a, const TcpAddress& b);

// One address to try, and the reason for its position in the order.
struct Attempt {
  SocketAddress at;
  std::string reason;     // "same host", "same subnet", "routed", "link-local", "loopback"
  std::string interface;  // the local interface in the same subnet; "": the routing table decides
  std::string network;    // the name of the peer's interface that has the address
  bool anywhere = false;  // the address can be reached from other links and machines
  // The speed of the slower of the two ends' interfaces in Mbit/s, or of the peer's if `interface` is "". 0: unknown.
  std::uint32_t mbps = 0;
};

// Returns the candidates of `remote` in the order in which the process `self`, whose interfaces are `local`, must try
// them:
//   same host     loopback first, then the others in the published order
//   other host    addresses in a subnet of this host, then other addresses, then link-local ones through each
//                 link of this host. If there are several networks of one kind, the fastest is first, provided that all
//                 speeds are known. Loopback is tried only if one of the two processes published no host id. (This does
//                 no harm, because the handshake detects a wrong process.)
std::vector<Attempt> OrderAttempts(const TcpAddress& self, const std::vector<LocalAddress>& local,
                                   const TcpAddress& remote);

// Says why one of several networks to a peer was chosen, and which other networks there are.
struct NetworkChoice {
  std::string text;  // "the fastest of 2 networks, 100 Gbit/s; also 10.0.0.2 via eth0, 1 Gbit/s"; "": no other network
  bool speeds_unknown = false;  // another network may be faster
};
// `taken`: the peer's address on the connection.
NetworkChoice DescribeChoice(const std::vector<Attempt>& attempts, const IpAddress& taken);

// The networks of the published addresses, for messages: "2 networks: ib0 (100 Gbit/s) before eth0 (1 Gbit/s)". "":
// there is only one.
NetworkChoice DescribeNetworks(const std::vector<Candidate>& candidates);

// Orders the attempts for a lane of rail `rail` (transport/rail.h). Attempts are equally good if they have the same
// reason, family and speed, and if all or none of them use loopback. The n equally good attempts at the front are
// rotated by rail modulo n. Rail 0 changes nothing.
std::vector<Attempt> InTurn(std::vector<Attempt> attempts, std::uint32_t rail);

// Chooses one of the addresses `own` as the local address of a connection to `to`. It prefers addresses whose subnet
// contains `to`. If several addresses are equally good, the rail selects one. nullopt: the routing table decides,
// because `own` is empty or the path stays on the host.
std::optional<IpAddress> SourceFor(const IpAddress& to, const std::vector<Candidate>& own, std::uint32_t rail);

}  // namespace rondo::tcp
