// Writes the contents of flight recorders as JSON text: for people, for `rondo trace`, and for tools that read dumps of
// c10d's recorder. Fields that exist in c10d's format have the same names, units and meanings here (docs/DIAGNOSING.md
// lists them). All other fields are in objects named "rondo".
//
// Times in a dump are nanoseconds since 1970, as in c10d. They are converted from the monotonic clock. The conversion
// uses one reading of both clocks, the anchor. The dump contains the anchor, so a reader can convert back.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "collectives/recorder/record.h"

namespace rondo {

inline constexpr int kDumpFormat = 1;  // version of the fields that only Rondo has

// What the monotonic clock and the wall clock showed at one moment.
struct ClockAnchor {
  TimePoint monotonic{};
  Duration wall{};   // time since 1970
  Duration error{};  // the two clocks were read at most this long apart
};
ClockAnchor AnchorOf(const Clock& clock);

// The process that writes the dump.
struct DumpOrigin {
  std::string job;
  std::uint64_t generation = 0;
  Rank rank = 0;  // in the job
  std::string host;
  std::string host_id;  // two ranks share a monotonic clock if their host ids are equal and not empty
  std::uint64_t pid = 0;
  std::string reason;  // why the dump is made: "error", "call", "signal"
  ClockAnchor anchor;
};

// One communicator; c10d calls it a process group.
struct DumpedGroup {
  std::string name;         // equal on all its ranks: "0" for the whole job, "0.2.7" for its second Split, color 7
  std::string description;  // "default_pg", "split 2 of 0, color 7"
  std::vector<Rank> ranks;  // ranks in the job, indexed by rank in the communicator
  Rank rank = 0;            // this process's rank in the communicator
  std::string transports;   // as Communicator::Transports
  std::vector<std::string> transport_to;  // transport to each rank of the communicator; empty: no longer known
  Sequence issued = 0;
  Sequence completed = 0;
  std::string failure;  // "": it has not failed
  std::vector<Record> records;
  std::vector<std::pair<std::uint64_t, std::string>> message_errors;  // pairs of a message's number and its error
};

std::string DumpText(const DumpOrigin& origin, const std::vector<DumpedGroup>& groups);

// Returns a name such as "rondo-JOB-g0-group0-rank3.json". `group` is the group whose records come first. All
// characters except letters, digits, '-' and '.' become '_'.
std::string DumpFileName(const DumpOrigin& origin, const std::string& group);

// Writes the text to a file with this name in a folder, which must exist, and returns the path. Replaces the file of an
// earlier dump atomically. kResource names the file and gives the system's reason.
Result<std::string> WriteDump(const std::string& folder, const std::string& name, const std::string& text);

}  // namespace rondo
