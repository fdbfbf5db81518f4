// Times as torch gives them.
#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>

namespace rondo_torch {

// The longest time that librondo takes: 31 years, which stand for "no limit".
constexpr std::chrono::milliseconds kLongest{1'000'000'000'000};

// Longer times than kLongest are kLongest. Throws a ValueError for 0 and less; `what` says whose time it is.
inline std::chrono::milliseconds LimitOf(std::chrono::milliseconds time, const char* what) {
  TORCH_CHECK_VALUE(time.count() > 0, "rondo: ", what, ": expected a timeout above 0, got ", time.count(),
                    " ms (torch's own arithmetic of times overflows beyond 292,000 years)");
  return std::min(time, kLongest);
}

}  // namespace rondo_torch
