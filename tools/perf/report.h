// What `rondo perf` prints: a table for people. Programs get JSON and CSV (rows_json.h), and there is a page with
// charts (html.h).
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

// The machine that measured, for whoever compares results later.
struct HostFacts {
  std::string name;
  std::string cpu;
  std::string kernel;
  int cores = 0;
};
HostFacts ThisHost();

// The table's head, one line per case with its out-of-place and in-place halves, and the lines at the end.
// `predicted`: with a last column for what the profile promised.
std::string TableHead(const std::string& title, bool predicted);
std::string TableLine(const std::optional<PerfRow>& out_of_place, const std::optional<PerfRow>& in_place,
                      bool predicted);
std::string TableFoot(const std::vector<PerfRow>& rows);

std::uint64_t CountWrong(const std::vector<PerfRow>& rows);

}  // namespace rondo
