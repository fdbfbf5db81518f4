// Which rank is on which host, and what cores the ranks of a host have.
#pragma once

#include <vector>

namespace rondo {

// The machines under a world, as all its ranks know them.
struct Place {
  std::vector<int> hosts;  // by rank: its host, numbered in order of first appearance; its size is the world size
  std::vector<int> cores;  // by host: how many its ranks share; 0: not known, taken for enough

  int world_size() const { return static_cast<int>(hosts.size()); }
  int host_count() const;
  // Some host has more ranks than cores: its ranks wait for one another to be scheduled.
  bool crowded() const;
  // On how many hosts the ranks are if each has as many of them, in a row; else 0.
  int even_hosts() const;
  static Place OneHost(int world_size, int cores) { return Even(world_size, 1, cores); }
  // REQUIRES: `host_count` divides `world_size`.
  static Place Even(int world_size, int host_count, int cores);
};

}  // namespace rondo
