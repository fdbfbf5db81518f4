// The table that `rondo perf` prints for users. Programs get JSON and CSV (rows_json.h); html.h makes a page with
// charts.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tools/perf/case.h"

namespace rondo {

// Describes the machine on which the measurement ran, for later comparisons.
struct HostFacts {
  std::string name;
  std::string cpu;
  std::string kernel;
  int cores = 0;
};
HostFacts ThisHost();

// These functions make the table: its head, a line per case with an out-of-place and an in-place half, and the lines at
// its end. `predicted`: whether there is a last column for the profile's prediction.
std::string TableHead(const std::string& title, bool predicted);
std::string TableLine(const std::optional<PerfRow>& out_of_place, const std::optional<PerfRow>& in_place,
                      bool predicted);
std::string TableFoot(const std::vector<PerfRow>& rows);

std::uint64_t CountWrong(const std::vector<PerfRow>& rows);

}  // namespace rondo
