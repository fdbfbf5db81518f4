// Parses the dumps of flight recorders (docs/DIAGNOSING.md). A dump has what one rank recorded for each communicator
// that it was part of.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/rank_frame.h"
#include "base/result.h"

namespace rondo {

// A collective, a send or a receive, as one rank has recorded it.
struct TracedOperation {
  std::uint64_t number = 0;  // of a collective, its sequence number; of a message, its index among the rank's messages
  std::string what;          // "all_reduce float32 x 1000 sum", "send float32 x 10 to rank 3 with tag 7"
  std::string algorithm;     // empty for messages
  std::string state;         // "scheduled", "started", "completed", "failed"
  std::string error;
  bool coarse = false;     // it was complete at once: start and end are one time, from a clock that may lag
  bool meets_all = false;  // a collective that no rank can leave before all ranks have entered it
  // Since 1970, by the clock of the rank's host; merge.h aligns the hosts.
  Duration created{};
  std::optional<Duration> started;
  std::optional<Duration> ended;  // when it completed or failed
  std::optional<std::uint64_t> step, bytes_done, bytes_due;

  std::string Text() const { return algorithm.empty() ? what : what + " by " + algorithm; }
  bool unfinished() const { return state == "started"; }
};

// One rank of one communicator.
struct RankTrace {
  Rank rank = 0;     // in the job
  std::string file;  // the file of this dump
  std::string host, host_id;
  std::uint64_t pid = 0;
  std::string reason;       // why the dump was written
  std::string transport;    // "": unknown
  std::string failure;      // the failure of the communicator; "": none
  Duration dumped_at{};     // since 1970, like all times
  Duration clock_offset{};  // what the dump adds to monotonic times of its host to get these times
  Duration clock_error{};   // the largest error of that offset
  Duration coarse{};        // the largest lag of the clock that coarse times come from
  std::uint64_t last_enqueued = 0, last_started = 0, last_completed = 0;
  std::vector<TracedOperation> collectives;  // by rising number
  std::vector<TracedOperation> messages;     // by rising number
};

struct DumpedPart {
  std::string group, description;
  std::vector<Rank> ranks;  // the members of the group, by their ranks in the job
  RankTrace trace;
  // The frame for names of ranks. Null if the ranks of the group are those of the job, with the same numbers.
  std::shared_ptr<const RankFrame> frame = nullptr;
};

struct Dump {
  std::string file;
  std::string job;
  std::uint64_t generation = 0;
  std::vector<DumpedPart> parts;
};

// kInvalidArgument: the message names the file and the place in it. For a text that is not JSON the place is line and
// column; otherwise it is the key that is missing or has a wrong value.
Result<Dump> ParseDump(const std::string& file, std::string_view text);
// Reads the file and parses it. kInvalidArgument also if the file cannot be read.
Result<Dump> ReadDump(const std::string& file);
// The files that the arguments name: a file itself, and of a folder all rondo-*.json. kInvalidArgument: a folder cannot
// be read or has no such file.
Result<std::vector<std::string>> FindDumps(const std::vector<std::string>& arguments);

}  // namespace rondo
