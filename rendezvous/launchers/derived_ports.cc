#include "rendezvous/launchers/derived_ports.h"

#include <algorithm>
#include <string>

#include "rendezvous/launchers/digest.h"

namespace rondo {
namespace {

constexpr std::uint64_t kFirst = 20000;
constexpr std::uint64_t kCount = 10000;

}  // namespace

std::vector<std::uint16_t> DerivedPorts(std::string_view job, std::uint16_t avoid) {
  std::vector<std::uint16_t> ports;
  // Two jobs whose first ports coincide need not share the second: a new digest of the digest each time.
  for (std::uint64_t digest = Digest(job); ports.size() < kDerivedPorts; digest = Digest(std::to_string(digest))) {
    const auto port = static_cast<std::uint16_t>(kFirst + digest % kCount);
    if (port != avoid && std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
  }
  return ports;
}

}  // namespace rondo
