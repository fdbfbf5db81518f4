// Diagnoses a job that hangs, fails or is slow from its merged trace: missing ranks, mismatched operations, where each
// rank was, ranks that are behind, and ranks that are late.
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

// Ranks that called different collectives with the same sequence number, or the same one with different arguments.
struct TraceMismatch {
  std::uint64_t number = 0;
  std::vector<std::pair<std::string, std::vector<Rank>>> sides;  // each call, and the ranks that made it
};

// What one rank was doing when its dump was written.
struct TraceStanding {
  Rank rank = 0;
  std::uint64_t last_completed = 0;
  std::optional<Duration> since;           // time since last_completed ended; nullopt: no record of that
  std::optional<TracedOperation> current;  // the operation that has started or failed; nullopt: none
  Duration in_current{};
  std::uint64_t waiting = 0;  // operations that were issued after it
  // An operation that this rank has not entered although others did so at least kBehindFrom ago.
  std::optional<std::uint64_t> not_entered;
  Duration behind{};
  std::string failure;  // of the communicator, as this rank reports it
};

// How much later than the first rank a rank enters operations.
struct TraceLateness {
  Rank rank = 0;
  Duration median{};
  Duration most{};
  std::uint64_t most_at = 0;  // the operation's number
  std::size_t last = 0;       // number of operations that it entered last
};

struct TraceMessage {
  Rank rank = 0;
  TracedOperation operation;
  Duration since{};  // until it failed, or until the dump
};

struct GroupFindings {
  std::string name, description;
  std::vector<Rank> ranks;
  std::vector<Rank> missing;              // ranks without records
  std::vector<TraceMismatch> mismatches;  // by number
  std::vector<TraceStanding> standings;   // by rank
  // The number of operations that all ranks with records have entered and recorded, and each rank's lateness in them,
  // the latest rank first. Empty if only one rank has records.
  std::size_t compared = 0;
  std::vector<TraceLateness> lateness;
  std::vector<TraceMessage> messages;  // not completed, by rank

  // The rank that is late so often, and by so much, that it is worth reporting; null: none.
  const TraceLateness* Straggler() const;
  // Whether the job is without errors. A slow job is healthy.
  bool IsHealthy() const;
};

// Thresholds to report a rank as behind, or as a straggler. Shorter delays are normal effects of scheduling.
inline constexpr Duration kBehindFrom = std::chrono::milliseconds(100);
inline constexpr Duration kLateFrom = std::chrono::microseconds(100);

std::vector<GroupFindings> FindingsOf(const Trace& trace);

}  // namespace rondo
