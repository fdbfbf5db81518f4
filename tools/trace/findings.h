// Finds out from a merged trace why a job hangs, fails or is slow. The findings are missing ranks, mismatched
// operations, the current operation of each rank, ranks that are behind, and stragglers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "tools/trace/merge.h"

namespace rondo {

// Ranks that called different collectives with the same sequence number, or the same collective with different
// arguments.
struct TraceMismatch {
  std::uint64_t number = 0;
  std::vector<std::pair<std::string, std::vector<Rank>>> sides;  // each call, and the ranks that made it
};

// The state of one rank when its dump was written.
struct TraceRankState {
  Rank rank = 0;
  std::uint64_t last_completed = 0;
  std::optional<Duration> since;           // time since the operation `last_completed` ended; nullopt: unknown
  std::optional<TracedOperation> current;  // the operation that is running or has failed; nullopt: none
  Duration in_current{};
  std::uint64_t waiting = 0;  // the number of operations that were issued after the current one
  // An operation that this rank has not entered, although other ranks entered it at least kBehindFrom ago.
  std::optional<std::uint64_t> not_entered;
  Duration behind{};
  std::string failure;  // the failure of the communicator, as this rank reports it
};

// How much later a rank enters operations than the first rank to enter them.
struct TraceLateness {
  Rank rank = 0;
  Duration median{};
  Duration most{};
  std::uint64_t most_at = 0;  // the number of the operation with the largest lateness
  std::size_t last = 0;       // number of operations that this rank was the last of all ranks to enter
};

struct TraceMessage {
  Rank rank = 0;
  TracedOperation operation;
  Duration since{};  // how long the message had been pending when it failed or when the dump was written
};

struct GroupFindings {
  std::string name, description;
  std::vector<Rank> ranks;
  std::vector<Rank> missing;                // ranks without records
  std::vector<TraceMismatch> mismatches;    // by number
  std::vector<TraceRankState> rank_states;  // by rank
  // `compared` is the number of operations that all ranks with records have entered and recorded. `lateness` contains
  // each rank's lateness in these operations, the latest rank first. It is empty if only one rank has records.
  std::size_t compared = 0;
  std::vector<TraceLateness> lateness;
  std::vector<TraceMessage> messages;  // not completed, by rank

  // The rank that must be reported as a straggler, because its delays are long and frequent; null: there is none.
  const TraceLateness* Straggler() const;
  // Whether the job is without errors. A slow job is healthy.
  bool IsHealthy() const;
};

// A rank is reported as behind, or as a straggler, if its delay reaches these thresholds. Shorter delays are normal
// effects of scheduling.
inline constexpr Duration kBehindFrom = std::chrono::milliseconds(100);
inline constexpr Duration kLateFrom = std::chrono::microseconds(100);

std::vector<GroupFindings> FindingsOf(const Trace& trace);

}  // namespace rondo
