#include "rendezvous/launchers/derived_ports.h"

#include <algorithm>
#include <string>

#include "rendezvous/launchers/digest.h"

namespace rondo {
namespace {

constexpr PortRange kUsual{.first = 20000, .last = 29999};

}  // namespace

std::vector<std::uint16_t> DerivedPorts(std::string_view job, std::uint16_t avoid, PortRange ports) {
  const PortRange range = ports.IsSet() ? ports : kUsual;
  const auto count = static_cast<std::uint64_t>(range.count());
  const bool avoids = avoid >= range.first && avoid <= range.last;
  const std::uint64_t most = std::min<std::uint64_t>(kDerivedPorts, count - (avoids ? 1 : 0));
  std::vector<std::uint16_t> derived;
  const auto add = [&](std::uint64_t number) {
    const auto port = static_cast<std::uint16_t>(range.first + number % count);
    if (port != avoid && std::find(derived.begin(), derived.end(), port) == derived.end()) derived.push_back(port);
  };
  // If two jobs have the same first port, their second ports should differ, so each port is computed from a digest of
  // the previous digest. In a range that is not much larger than kDerivedPorts, the ports are consecutive.
  std::uint64_t digest = Digest(job);
  while (derived.size() < most) {
    add(digest);
    digest = count > 8 * kDerivedPorts ? Digest(std::to_string(digest)) : digest + 1;
  }
  return derived;
}

}  // namespace rondo
