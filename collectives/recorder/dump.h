// What a flight recorder holds as JSON text, for people, for `rondo trace`, and for analysers of c10d's recorder:
// fields that c10d has too have its names, units and meanings (docs/DIAGNOSING.md lists them). What it has no field for
// stands in objects called "rondo".
//
// Times in a dump are nanoseconds since 1970, as c10d's are. They come from the monotonic clock and one look at both
// clocks, the anchor, which is in the dump too: whoever knows it can go back.
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

inline constexpr int kDumpFormat = 1;  // of what is ours

// The two clocks at one moment.
struct ClockAnchor {
  TimePoint monotonic{};
  Duration wall{};   // since 1970
  Duration error{};  // they were read so far apart, at most
};
ClockAnchor AnchorOf(const Clock& clock);

// Who dumps.
struct DumpOrigin {
  std::string job;
  std::uint64_t generation = 0;
  Rank rank = 0;  // in the job
  std::string host;
  std::string host_id;  // ranks for which it is the same, and not empty, share a monotonic clock
  std::uint64_t pid = 0;
  std::string reason;  // "error", "call", "signal"
  ClockAnchor anchor;
};

// One communicator: what c10d calls a process group.
struct DumpedGroup {
  std::string name;         // equal on all its ranks: "0" of the job, "0.2.7" of its second Split, color 7
  std::string description;  // "default_pg", "split 2 of 0, color 7"
  std::vector<Rank> ranks;  // of the job, by rank of the communicator
  Rank rank = 0;            // this one's, in the communicator
  std::string transports;   // as Communicator::Transports
  std::vector<std::string> transport_to;  // by rank of the communicator; empty: not known any more
  Sequence issued = 0;
  Sequence completed = 0;
  std::string failure;  // "": it has not failed
  std::vector<Record> records;
  std::vector<std::pair<std::uint64_t, std::string>> message_errors;  // by number of the message
};

std::string DumpText(const DumpOrigin& origin, const std::vector<DumpedGroup>& groups);

// "rondo-JOB-g0-group0-rank3.json"; `group` is the one whose records come first. Anything but letters, digits, '-' and
// '.' becomes '_'.
std::string DumpFileName(const DumpOrigin& origin, const std::string& group);

// Writes the text under that name into a folder, which must be there; a file of an earlier dump is replaced, and until
// then whole. Gives the path. kResource names it and says what the system said.
Result<std::string> WriteDump(const std::string& folder, const std::string& name, const std::string& text);

}  // namespace rondo
