// transport/tcp/address: the address that a TCP transport publishes through the store, as any rank reads it, and the
// order in which its candidates are tried.
#include "base/printable.h"
#include "tests/fuzz/harness.h"
#include "transport/tcp/address.h"
#include "transport/transport.h"

namespace rondo::fuzz::tcp_address_fuzz {
using tcp::AddressClass;
using tcp::TcpAddress;

TcpAddress SomeAddress() {
  return {.host = "a",
          .host_id = "boot-net",
          .instance = "0123456789abcdef",
          .candidates = {{{*IpAddress::Parse("10.0.0.1"), 4711}, 24, AddressClass::kGlobal, "eth0"},
                         {{*IpAddress::Parse("fe80::1%3"), 4711}, 64, AddressClass::kLinkLocal, "eth0"},
                         {{*IpAddress::Parse("127.0.0.1"), 4711}, 8, AddressClass::kLoopback, "lo"}}};
}

std::vector<tcp::LocalAddress> SomeInterfaces() {
  return {{.interface = "eth0", .ip = *IpAddress::Parse("10.0.0.2"), .prefix_bits = 24, .up = true},
          {.interface = "eth0", .ip = *IpAddress::Parse("fe80::2%2"), .prefix_bits = 64, .up = true}};
}

Corpus HarnessCorpus() {
  TcpAddress full = SomeAddress();
  while (full.candidates.size() < tcp::kMaxCandidates) full.candidates.push_back(full.candidates[1]);
  return {.seeds = {Encode(SomeAddress()), Encode(TcpAddress{}), Encode(full)},
          .words = {std::string("RTA\x02", 4), std::string("\x04\x7f\x00\x00\x01", 5)}};
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  const Result<TcpAddress> address = tcp::DecodeTcpAddress(input);
  CheckError(address);
  // The largest allocation is a vector of 32 candidates that grows by doubling, whatever the text contains.
  allocations.CheckLargest(4096 + 64 * input.size());
  if (!address) return;

  RONDO_HOLDS(input.size() <= kMaxAddressBytes && address->candidates.size() <= tcp::kMaxCandidates);
  const std::string bytes = Encode(*address);
  // An IPv4 address that was written as a mapped IPv6 address is encoded as IPv4.
  RONDO_HOLDS(bytes.size() <= input.size());
  const Result<TcpAddress> again = tcp::DecodeTcpAddress(bytes);
  RONDO_HOLDS(again && *again == *address);

  const TcpAddress self = SomeAddress();
  const auto interfaces = SomeInterfaces();
  const std::vector<tcp::Attempt> attempts = OrderAttempts(self, interfaces, *address);
  RONDO_HOLDS(attempts.size() <= address->candidates.size() * interfaces.size(), "{} attempts", attempts.size());
  for (const tcp::Attempt& attempt : attempts) {
    RONDO_HOLDS(!attempt.reason.empty() && IsPrintable(attempt.at.ToString()));
    RONDO_HOLDS(IpAddress::Parse(attempt.at.ip.ToString()) == attempt.at.ip, "{}", attempt.at.ip.ToString());
  }
}

}  // namespace rondo::fuzz::tcp_address_fuzz
