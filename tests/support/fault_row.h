// A test that injects a fault of the list (tests/faults/faults.py) reports three things here: which fault, how often
// the injector counted it, and the outcome. If the environment variable RONDO_FAULT_ROWS names a file, a line of JSON
// is appended to the file. The program tests/faults/table makes a table from these lines. Without the variable nothing
// happens.
//
//   StateFault(8, cut->fired.count(), statuses, {.took = job.took()});
//
// In the table a case has the name of its doctest test, and all rows of a case become one line.
//
// Thread rule: only the thread that runs the test.
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
  std::string_view path = "tcp";  // the transport between the ranks
  // The time from before the fault to the last error or result. It is an upper bound of the detection time.
  std::optional<Duration> took = {};
  // The layer in the table that tests/faults/table makes: simulation, sockets (also other tests with threads), or
  // processes.
  std::string_view layer = "sockets";
};

// `outcome` is "correct", or "typed_error" with the codes, or other text that begins with "correct", "typed_error" or
// "documented".
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

// Reports the outcome of all ranks: "correct" if all succeeded, otherwise the error codes of the ranks that failed.
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
