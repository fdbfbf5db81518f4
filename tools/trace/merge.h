// Merges the dumps of all ranks into one trace, with all times on the clock of the first host.
//
// Ranks of one host share its monotonic clock, so their times agree. The times of different hosts are first aligned by
// their wall clocks, which a time service keeps within milliseconds. After that, operations in which two hosts took
// part are used to check and correct the alignment of these hosts. No rank leaves an all_reduce (or all_gather,
// reduce_scatter, all_to_all, barrier) before all ranks have entered it. So each such operation limits the possible
// difference between the clocks of two hosts that took part.
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
  std::vector<Rank> ranks;           // the members' ranks in the job, indexed by rank in the group
  std::map<Rank, RankTrace> dumped;  // the members whose records are available

  std::vector<Rank> Missing() const;  // the other members
};

// The conversion of one host's times to times of the first host.
struct HostClock {
  std::string host;
  // the time that was added to times of the host's wall clock; 0: no operation contradicts the wall clock
  Duration shifted{};
  // the largest possible error of this host's times on the first host's clock; nullopt: unknown
  std::optional<Duration> error;
};

struct Trace {
  std::string job;
  std::uint64_t generation = 0;
  std::vector<GroupTrace> groups;  // sorted by name
  std::vector<HostClock> hosts;    // the host of the first rank is first
};

// If a rank has several dumps of one group, the latest is used. kInvalidArgument: the dumps are of different jobs or
// generations, disagree about the ranks of a group, or contain no group; the message names the files. REQUIRES: at
// least one dump.
Result<Trace> MergeDumps(std::vector<Dump> dumps);

}  // namespace rondo
