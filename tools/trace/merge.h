// The dumps of all ranks as one trace, with all times on one clock.
//
// Ranks of a host share its monotonic clock, so their times differ by nothing. Hosts are laid side by side by their
// wall clocks, which a time service keeps within milliseconds. Where that cannot be true it is put right: nobody leaves
// an all_reduce (or all_gather, reduce_scatter, all_to_all, barrier) before all have entered it, so every one of them
// that two hosts shared says by how much one's clock may be before or behind the other's, at most.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "tools/trace/dump.h"

namespace rondo {

struct GroupTrace {
  std::string name, description;
  std::vector<Rank> ranks;           // of the job: who belongs to it
  std::map<Rank, RankTrace> dumped;  // those whose records are at hand

  std::vector<Rank> Missing() const;  // the others
};

// How one host's times became those of the first host.
struct HostClock {
  std::string host;
  Duration shifted{};             // of its wall clock; 0: that agrees with what happened, or nothing says otherwise
  std::optional<Duration> error;  // its times are within so much of the first host's; nullopt: nobody knows
};

struct Trace {
  std::string job;
  std::uint64_t generation = 0;
  std::vector<GroupTrace> groups;  // by name
  std::vector<HostClock> hosts;    // the first rank's host first
};

// Of several dumps by one rank of one group the last counts. kInvalidArgument: the dumps are of several jobs or
// generations, or tell different things of a group's ranks; it names two files. REQUIRES: at least one.
Result<Trace> MergeDumps(std::vector<Dump> dumps);

}  // namespace rondo
