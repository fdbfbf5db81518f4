// Code shared by the formulas of cost and of order.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "collectives/schedule/transfers.h"

namespace rondo::formulas {

inline std::uint32_t FloorLog2(std::uint32_t value) { return static_cast<std::uint32_t>(std::bit_width(value)) - 1; }
inline std::uint32_t CeilLog2(std::uint32_t value) { return static_cast<std::uint32_t>(std::bit_width(value - 1)); }

// T(P, k): how many transfers the root of a k-nomial tree makes, one after the other.
inline std::uint32_t KnomialTurns(std::uint32_t p, std::uint32_t radix) {
  std::uint32_t first_digit = p - 1, further_digits = 0;
  for (; first_digit >= radix; first_digit /= radix) ++further_digits;
  return first_digit + (radix - 1) * further_digits;
}

// The ranks of each host, ascending.
inline std::vector<std::vector<Rank>> RanksOfHosts(const World& world) {
  std::vector<std::vector<Rank>> hosts(1);
  for (Rank rank = 0; rank < world.size; ++rank) {
    const auto host = world.hosts.empty() ? 0 : static_cast<std::size_t>(world.hosts[static_cast<std::size_t>(rank)]);
    if (hosts.size() <= host) hosts.resize(host + 1);
    hosts[host].push_back(rank);
  }
  return hosts;
}

}  // namespace rondo::formulas
