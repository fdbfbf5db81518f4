// Writes the contents of flight recorders as JSON text: for people, for `rondo trace`, and for analysers of c10d's
// recorder. Fields that c10d has, too, have its names, units and meanings (docs/DIAGNOSING.md lists them). All other
// fields are in objects named "rondo".
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

inline constexpr int kDumpFormat = 1;  // version of our own fields

// Both clocks at one moment.
struct ClockAnchor {
  TimePoint monotonic{};
  Duration wall{};   // time since 1970
  Duration error{};  // largest possible distance between the two readings
};
ClockAnchor AnchorOf(const Clock& clock);

// The process that dumps.
struct DumpOrigin {
  std::string job;
  std::uint64_t generation = 0;
  Rank rank = 0;  // in the job
  std::string host;
  std::string host_id;  // ranks with an equal one that is not empty share a monotonic clock
  std::uint64_t pid = 0;
  std::string reason;  // "error", "call", "signal"
  ClockAnchor anchor;
};

// One communicator; c10d calls it a process group.
struct DumpedGroup {
  std::string name;         // equal on all its ranks: "0" for the whole job, "0.2.7" for its second Split, color 7
  std::string description;  // "default_pg", "split 2 of 0, color 7"
  std::vector<Rank> ranks;  // of the job, by rank of the communicator
  Rank rank = 0;            // this rank, in the communicator
  std::string transports;   // as Communicator::Transports
  std::vector<std::string> transport_to;  // by rank of the communicator; empty: no longer known
  Sequence issued = 0;
  Sequence completed = 0;
  std::string failure;  // "": it has not failed
  std::vector<Record> records;
  std::vector<std::pair<std::uint64_t, std::string>> message_errors;  // by number of the message
};

std::string DumpText(const DumpOrigin& origin, const std::vector<DumpedGroup>& groups);

// "rondo-JOB-g0-group0-rank3.json"; `group` is the group whose records come first. All characters except letters,
// digits, '-' and '.' become '_'.
std::string DumpFileName(const DumpOrigin& origin, const std::string& group);

// Writes the text to a file of that name in a folder, which must exist, and returns the path. Replaces the file of an
// earlier dump atomically. kResource names the file and the system's reason.
Result<std::string> WriteDump(const std::string& folder, const std::string& name, const std::string& text);

}  // namespace rondo
