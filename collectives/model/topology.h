// Which rank is on which host, and how many cores the ranks of each host share.
#pragma once

#include <vector>

namespace rondo {

// The hosts of a world. Equal on all ranks.
struct Topology {
  std::vector<int> hosts;  // by rank: number of its host, in order of first appearance; the length is the world size
  std::vector<int> cores;  // by host: number of cores that its ranks share; 0: unknown, assumed to suffice

  int world_size() const { return static_cast<int>(hosts.size()); }
  int host_count() const;
  // Whether some host has more ranks than cores, so that its ranks wait for one another to be scheduled.
  bool oversubscribed() const;
  // Number of hosts if each has the same number of consecutive ranks; otherwise 0.
  int even_hosts() const;
  static Topology OneHost(int world_size, int cores) { return Even(world_size, 1, cores); }
  // REQUIRES: `host_count` divides `world_size`.
  static Topology Even(int world_size, int host_count, int cores);
};

}  // namespace rondo
