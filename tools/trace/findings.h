// What a merged trace says of a job that hangs, fails or is slow: who is missing, who did something else, where each
// rank stands, who is behind, who comes late.
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

// Ranks that called different collectives under one number, or the same one differently.
struct TraceMismatch {
  std::uint64_t number = 0;
  std::vector<std::pair<std::string, std::vector<Rank>>> sides;  // what was called, and by whom
};

// Where one rank stood when it was dumped.
struct TraceStanding {
  Rank rank = 0;
  std::uint64_t last_completed = 0;
  std::optional<Duration> since;           // how long ago that was; nullopt: there is none, or its record is gone
  std::optional<TracedOperation> current;  // that has started, or failed; else it is between operations
  Duration in_current{};
  std::uint64_t waiting = 0;  // operations that were issued behind it
  // It has not entered this operation, which others had entered so long before.
  std::optional<std::uint64_t> not_entered;
  Duration behind{};
  std::string failure;  // of the communicator, as this rank has it
};

// How late a rank enters operations, beside the first to do so.
struct TraceLateness {
  Rank rank = 0;
  Duration median{};
  Duration most{};
  std::uint64_t most_at = 0;  // the operation's number
  std::size_t last = 0;       // operations that it entered last
};

struct TraceMessage {
  Rank rank = 0;
  TracedOperation operation;
  Duration since{};  // how long it was under way at the dump, or until it failed
};

struct GroupFindings {
  std::string name, description;
  std::vector<Rank> ranks;
  std::vector<Rank> missing;              // left no records
  std::vector<TraceMismatch> mismatches;  // by number
  std::vector<TraceStanding> standings;   // by rank
  // Of the operations that all ranks with records have entered and recorded: how many, and each rank's lateness, the
  // latest first. None for a rank alone.
  std::size_t compared = 0;
  std::vector<TraceLateness> lateness;
  std::vector<TraceMessage> messages;  // not completed, by rank

  // Who is so often so late that it is worth a word; null: nobody.
  const TraceLateness* Straggler() const;
  // Whether anything is wrong with the job; being slow is not.
  bool IsHealthy() const;
};

// A rank is called behind, or a straggler, from here on: less is how threads are scheduled.
inline constexpr Duration kBehindFrom = std::chrono::milliseconds(100);
inline constexpr Duration kLateFrom = std::chrono::microseconds(100);

std::vector<GroupFindings> FindingsOf(const Trace& trace);

}  // namespace rondo
