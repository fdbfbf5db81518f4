// A test that stages a fault of the list (tests/faults/faults.py) states it: which fault, how often it fired by the
// injector's own count, and what came of it. Where the environment names a file in RONDO_FAULT_ROWS a line of JSON is
// appended there, for tests/faults/table; else nothing happens.
//
//   StateFault(8, cut->fired.count(), statuses, {.took = job.took()});
//
// A case is named by its doctest test; several rows of one case are one line of the table.
//
// Thread rule: the thread that runs the test.
#pragma once

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/result.h"

namespace rondo {

struct FaultRowDetails {
  std::string_view path = "tcp";       // what the ranks are connected by
  std::optional<Duration> took = {};   // from before the fault to the last error or result: told within that
  std::string_view layer = "sockets";  // of the table: simulation, sockets (and what else threads do), processes
};

// `outcome`: "correct", "typed_error" and the codes, or other words that begin with one of these or "documented".
inline void StateFault(int fault, std::uint64_t fired, std::string_view outcome, const FaultRowDetails& details = {}) {
  const char* const file = std::getenv("RONDO_FAULT_ROWS");
  if (file == nullptr) return;
  const auto quoted = [](std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out + '"';
  };
  const std::string_view name = doctest::getContextOptions()->currentTest->m_name;
  const std::string took =
      details.took ? fmt::format("{:.1f}", std::chrono::duration<double, std::milli>(*details.took).count()) : "null";
  const std::string line = fmt::format(
      R"({{"fault": {}, "case": {}, "layer": {}, "path": {}, "fired": {}, "outcome": {}, "detected_ms": {}}})"
      "\n",
      fault, quoted(name), quoted(details.layer), quoted(details.path), fired, quoted(outcome), took);
  std::ofstream(file, std::ios::app) << line << std::flush;
}

// Of what each rank was told: "correct", or the codes of all that were told an error.
inline void StateFault(int fault, std::uint64_t fired, std::span<const Status> ranks,
                       const FaultRowDetails& details = {}) {
  std::set<std::string_view> codes;
  for (const Status& status : ranks)
    if (!status) codes.insert(Name(status.error().code()));
  std::string outcome = codes.empty() ? "correct" : "typed_error";
  for (const std::string_view code : codes) outcome += fmt::format(" {}", code);
  StateFault(fault, fired, outcome, details);
}
inline void StateFault(int fault, std::uint64_t fired, const std::vector<Status>& ranks,
                       const FaultRowDetails& details = {}) {
  StateFault(fault, fired, std::span<const Status>(ranks), details);
}
inline void StateFault(int fault, std::uint64_t fired, const Error& error, const FaultRowDetails& details = {}) {
  StateFault(fault, fired, fmt::format("typed_error {}", Name(error.code())), details);
}

}  // namespace rondo
