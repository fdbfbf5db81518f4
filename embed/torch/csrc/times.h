// Times as torch gives them.
#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>

namespace rondo_torch {

// The longest time that librondo takes: 31 years, which stand for "no limit".
constexpr std::chrono::milliseconds kLongest{1'000'000'000'000};

// Longer times than kLongest are kLongest, and so are those below -kLongest: torch's own conversion has overflowed
// there, as timedelta.max makes it. Throws a ValueError for 0 and other times below; `what` says whose time it is.
inline std::chrono::milliseconds LimitOf(std::chrono::milliseconds time, const char* what) {
  if (time < -kLongest) return kLongest;
  TORCH_CHECK_VALUE(time.count() > 0, "rondo: ", what, ": expected a timeout above 0, got ", time.count(), " ms");
  return std::min(time, kLongest);
}

// The timeout of an operation whose options say `time`, and of one whose options say none: `otherwise`.
inline std::chrono::milliseconds LimitOr(std::chrono::milliseconds time, std::chrono::milliseconds otherwise) {
  if (time < -kLongest) return kLongest;  // as above
  return std::min(time.count() > 0 ? time : otherwise, kLongest);
}

}  // namespace rondo_torch
