// The files that `rondo perf` writes and reads besides the table that it prints, and checks of these files.
#pragma once

#include <string>

#include "base/result.h"

namespace rondo {

// Where results are written. For json, csv and html, "" means nowhere and "-" means stdout, which only one of them can
// use; the table is then printed to stderr.
struct PerfOutputs {
  std::string json;
  std::string csv;
  std::string html;
  std::string baseline;         // a file that --json wrote in an earlier run
  double max_regression = 0.1;  // how much longer than in the baseline a row may take, as a share
  bool predicted = false;       // the table has a column for the profile's prediction
  std::string launch;           // how the ranks were launched, for the heading; "": no line
  std::string record_dir;       // where each rank writes what its flight recorder holds; made if missing

  bool StdoutIsData() const { return json == "-" || csv == "-" || html == "-"; }
};

// Checks before the measurement that all files can be read or written. kInvalidArgument names flag and file.
Status CheckFiles(const PerfOutputs& outputs);
// Makes the folder for records and checks that it can be written. Every rank must call it: its host may have a file
// system of its own.
Status PrepareRecordDir(const PerfOutputs& outputs);

// The content of the file of --baseline. kInvalidArgument names flag and file.
Result<std::string> ReadBaseline(const std::string& path);

}  // namespace rondo
