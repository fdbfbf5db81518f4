// Parses the dumps of flight recorders (docs/DIAGNOSING.md). A dump contains the records of one rank, for each
// communicator to which the rank belonged.
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
  // For a collective, its sequence number; for a message, its index among the rank's messages.
  std::uint64_t number = 0;
  std::string what;       // "all_reduce float32 x 1000 sum", "send float32 x 10 to rank 3 with tag 7"
  std::string algorithm;  // empty for messages
  std::string state;      // "scheduled", "started", "completed", "failed"
  std::string error;
  // Whether the operation completed at once. Its start and end are then the same time, read from a coarse clock that
  // may be behind.
  bool coarse = false;
  bool synchronizes = false;  // a collective that no rank can leave before all ranks have entered it
  // The time since 1970 on the clock of the rank's host. The functions of merge.h align the clocks of different hosts.
  Duration created{};
  std::optional<Duration> started;
  std::optional<Duration> ended;  // when the operation completed or failed
  std::optional<std::uint64_t> step, bytes_done, bytes_due;

  std::string Text() const { return algorithm.empty() ? what : what + " by " + algorithm; }
  bool unfinished() const { return state == "started"; }
};

// The records of one rank in one communicator.
struct RankTrace {
  Rank rank = 0;     // in the job
  std::string file;  // the file of this dump
  std::string host, host_id;
  std::uint64_t pid = 0;
  std::string reason;       // why the dump was written
  std::string transport;    // "": unknown
  std::string failure;      // the failure of the communicator; "": none
  Duration dumped_at{};     // the time of the dump since 1970, on the clock of the host like all times here
  Duration clock_offset{};  // the offset that was added to monotonic times of the host to get times since 1970
  Duration clock_error{};   // the largest possible error of clock_offset
  Duration coarse{};        // the largest delay of the clock from which coarse times were read
  std::uint64_t last_enqueued = 0, last_started = 0, last_completed = 0;
  std::vector<TracedOperation> collectives;  // by rising number
  std::vector<TracedOperation> messages;     // by rising number
};

struct DumpedPart {
  std::string group, description;
  std::vector<Rank> ranks;  // the members of the group, as ranks of the job
  RankTrace trace;
  // Names the ranks of the group by their ranks in the job. Null if this is not needed: for the communicator of all
  // ranks, if each rank has the same number as in the job.
  std::shared_ptr<const RankFrame> frame = nullptr;
};

struct Dump {
  std::string file;
  std::string job;
  std::uint64_t generation = 0;
  std::vector<DumpedPart> parts;
};

// kInvalidArgument: the message names the file and the place of the error in it. If the text is not JSON, the place is
// line and column; otherwise it is the key that is missing or has a wrong value.
Result<Dump> ParseDump(const std::string& file, std::string_view text);
// Reads the file and parses it. kInvalidArgument also if the file cannot be read.
Result<Dump> ReadDump(const std::string& file);
// The files that the arguments name. For a folder these are all its files rondo-*.json. kInvalidArgument: a folder
// cannot be read or contains no such file.
Result<std::vector<std::string>> FindDumps(const std::vector<std::string>& arguments);

}  // namespace rondo
