// A whole measurement on one rank: every case in turn, and on rank 0 everything that is said about it.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "collectives/communicator.h"
#include "tools/perf_case.h"

namespace rondo {

// Where results go beside the table; "" for nowhere, "-" for stdout (the table is on stderr then).
struct PerfOutputs {
  std::string json;
  std::string csv;
  std::string html;
  std::string baseline;         // a file that --json wrote earlier
  double max_regression = 0.1;  // by how much of its time a row may have grown
  bool predicted = false;       // the table has a column for what the profile promised
  std::string launch;           // how the ranks came together, for the head; "": nothing to say
  std::string record_dir;       // where every rank leaves what its flight recorder holds; made if it is not there

  bool StdoutIsData() const { return json == "-" || csv == "-"; }
};

// Finds out now, not after minutes, that a file cannot be read or written. kInvalidArgument names flag and file.
Status CheckFiles(const PerfOutputs& outputs);
// The same of the folder for records, for every process: ranks may be on hosts of their own.
Status PrepareRecordDir(const PerfOutputs& outputs);

struct PerfVerdict {
  std::uint64_t wrong = 0;
  bool regressed = false;
  bool good() const { return wrong == 0 && !regressed; }
};

// Measures `cases` (equal on all ranks); rank 0 prints and writes. An error: an operation failed, memory was missing,
// or a file could not be written.
Result<PerfVerdict> MeasureAll(Communicator& communicator, const Clock& clock, const PerfOptions& options,
                               const std::vector<PerfCase>& cases, const PerfOutputs& outputs);

}  // namespace rondo
