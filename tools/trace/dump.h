// The dumps of flight recorders (docs/DIAGNOSING.md), read back: what each rank says of each communicator it was part
// of.
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

// A collective, a send or a receive, as one rank recorded it.
struct TracedOperation {
  std::uint64_t number = 0;  // the collective's sequence; of messages, the how-manieth of its rank
  std::string what;          // "all_reduce float32 x 1000 sum", "send float32 x 10 to rank 3 with tag 7"
  std::string algorithm;     // of collectives
  std::string state;         // "scheduled", "started", "completed", "failed"
  std::string error;
  bool coarse = false;     // ran at once; its times are one, from a clock that may be behind
  bool meets_all = false;  // a collective that no rank can leave before all have entered it
  // Since 1970, by the clock of the rank's host; see merge.h.
  Duration created{};
  std::optional<Duration> started;
  std::optional<Duration> ended;  // completed or failed
  std::optional<std::uint64_t> step, bytes_done, bytes_due;

  std::string Text() const { return algorithm.empty() ? what : what + " by " + algorithm; }
  bool unfinished() const { return state == "started"; }
};

// One rank of one communicator.
struct RankTrace {
  Rank rank = 0;     // of the job
  std::string file;  // that says so
  std::string host, host_id;
  std::uint64_t pid = 0;
  std::string reason;       // why it was dumped
  std::string transport;    // "": not known
  std::string failure;      // "": none
  Duration dumped_at{};     // since 1970, like all times
  Duration clock_offset{};  // from the host's monotonic clock to these times, as this dump has it ...
  Duration clock_error{};   // ... within so much
  Duration coarse{};        // how far a coarse clock is behind at most
  std::uint64_t last_enqueued = 0, last_started = 0, last_completed = 0;
  std::vector<TracedOperation> collectives;  // by number, rising
  std::vector<TracedOperation> messages;     // likewise
};

struct DumpedPart {
  std::string group, description;
  std::vector<Rank> ranks;  // of the job: who belongs to the group
  RankTrace trace;
  // Made with the others above, for names of its ranks; null where these are all the job's, as they are numbered there.
  std::shared_ptr<const RankFrame> frame = nullptr;
};

struct Dump {
  std::string file;
  std::string job;
  std::uint64_t generation = 0;
  std::vector<DumpedPart> parts;
};

// kInvalidArgument names the file, and where in it: by line and column what is no JSON, by name what is missing or
// makes no sense.
Result<Dump> ParseDump(const std::string& file, std::string_view text);
// The same, and: the file cannot be read, and why.
Result<Dump> ReadDump(const std::string& file);
// What arguments name: a file itself, of a folder what DumpFileName could have named. kInvalidArgument: there is no
// such file, or none in the folder.
Result<std::vector<std::string>> FindDumps(const std::vector<std::string>& arguments);

}  // namespace rondo
