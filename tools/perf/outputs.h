// Where `rondo perf` writes what it measured, beside the table: the files, and whether they can be read and written.
#pragma once

#include <string>

#include "base/result.h"

namespace rondo {

// Where results go beside the table; "" for nowhere, "-" for stdout (the table is on stderr then), for one of them.
struct PerfOutputs {
  std::string json;
  std::string csv;
  std::string html;
  std::string baseline;         // a file that --json wrote earlier
  double max_regression = 0.1;  // by how much of its time a row may have grown
  bool predicted = false;       // the table has a column for what the profile promised
  std::string launch;           // how the ranks came together, for the head; "": nothing to say
  std::string record_dir;       // where every rank leaves what its flight recorder holds; made if it is not there

  bool StdoutIsData() const { return json == "-" || csv == "-" || html == "-"; }
};

// Finds out now, not after minutes, that a file cannot be read or written. kInvalidArgument names flag and file.
Status CheckFiles(const PerfOutputs& outputs);
// The same of the folder for records, for every process: ranks may be on hosts of their own.
Status PrepareRecordDir(const PerfOutputs& outputs);

// What the file of --baseline holds. kInvalidArgument names flag and file.
Result<std::string> ReadBaseline(const std::string& path);

}  // namespace rondo
