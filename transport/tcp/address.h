// What Transport::Address() carries for TCP: who a process is, and all addresses at which it may be reached. This file
// also defines the order in which a connecting process tries them.
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
  std::string host;                   // for messages
  std::string host_id;                // equal on two processes only if they share kernel and network; "": equal to none
  std::string instance;               // new in every process
  std::vector<Candidate> candidates;  // best first

  friend bool operator==(const TcpAddress&, const TcpAddress&) = default;
};

// REQUIRES: at most kMaxCandidates candidates, names of at most kMaxNameBytes. The result has at most kMaxAddressBytes.
std::string Encode(const TcpAddress& address);
// kInvalidArgument names what is wrong and at which byte. Never allocates more bytes than the text has.
Result<TcpAddress> DecodeTcpAddress(std::string_view text);

bool SameHost(const TcpAddress& a, const TcpAddress& b);

// One address to try, and the reason for its position in the order.
struct Attempt {
  SocketAddress at;
  std::string reason;      // "same host", "same subnet", "routed", "link-local", "loopback"
  std::string interface;   // the local interface that shares the subnet; "": the routing table decides
  std::string network;     // the peer's interface
  bool anywhere = false;   // the address is valid beyond the link and this machine
  std::uint32_t mbps = 0;  // of the slower interface of both ends, as far as known; 0: unknown
};

// The candidates of `remote` in the order in which to try them from `self`, whose interfaces are `local`:
//   same host     loopback first, then the others in the order published
//   elsewhere     addresses in a subnet of this rank, then the others, then link-local ones through each of its own
//                 links. Among several networks of a kind the fastest is first, if all speeds are known. Loopback is
//                 tried only if one of the two processes published no host id. (That does no harm: the handshake
//                 detects a wrong process.)
std::vector<Attempt> OrderAttempts(const TcpAddress& self, const std::vector<LocalAddress>& local,
                                   const TcpAddress& remote);

// Why one of several networks to a peer was chosen, and which other networks there are.
struct NetworkChoice {
  std::string text;  // "the fastest of 2 networks, 100 Gbit/s; also 10.0.0.2 via eth0, 1 Gbit/s"; "": no other network
  bool speeds_unknown = false;  // another network may be faster
};
// `taken`: the peer's address on the connection.
NetworkChoice DescribeChoice(const std::vector<Attempt>& attempts, const IpAddress& taken);

// The networks of the published addresses, for messages: "2 networks: ib0 (100 Gbit/s) before eth0 (1 Gbit/s)". "":
// there is only one.
NetworkChoice DescribeNetworks(const std::vector<Candidate>& candidates);

// Orders the attempts for a lane of rail `rail` (transport/rail.h). The first n attempts that are equally good (the
// same reason, family and speed, and all or none loopback) are rotated by rail modulo n. Rail 0 changes nothing.
std::vector<Attempt> InTurn(std::vector<Attempt> attempts, std::uint32_t rail);

// Which of the chosen local addresses `own` to connect from, to reach `to`: one whose subnet contains `to`, or any
// otherwise. The rail selects among several. nullopt: the routing table decides, because `own` is empty or the path
// stays on the host.
std::optional<IpAddress> SourceFor(const IpAddress& to, const std::vector<Candidate>& own, std::uint32_t rail);

}  // namespace rondo::tcp
