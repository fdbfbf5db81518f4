// The files that `rondo perf` writes and reads, in addition to the table that it prints, and checks of these files.
#pragma once

#include <string>

#include "base/result.h"

namespace rondo {

// The destinations of the results. For json, csv and html, "" means that the format is not written, and "-" means
// stdout. Only one format can use stdout; the table is then printed to stderr.
struct PerfOutputs {
  std::string json;
  std::string csv;
  std::string html;
  std::string baseline;         // a file that --json wrote in an earlier run
  double max_regression = 0.1;  // how much longer a row may take than in the baseline; 0.1 means 10%
  bool predicted = false;       // the table has a column for the profile's prediction
  std::string launch;           // how the ranks were launched, for the heading; "": no line
  // The folder where each rank writes the contents of its flight recorder. The folder is created if it does not exist.
  std::string record_dir;

  bool StdoutIsData() const { return json == "-" || csv == "-" || html == "-"; }
};

// Checks that all files can be read or written. Must be called before the measurement. kInvalidArgument names flag and
// file.
Status CheckFiles(const PerfOutputs& outputs);
// Makes the folder for records and checks that it can be written. Every rank must call it, because ranks on different
// hosts may use different file systems.
Status PrepareRecordDir(const PerfOutputs& outputs);

// The content of the file of --baseline. kInvalidArgument names flag and file.
Result<std::string> ReadBaseline(const std::string& path);

}  // namespace rondo
