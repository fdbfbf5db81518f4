// Conversion of torch's timeouts.
#pragma once

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>

namespace rondo_torch {

// The longest time that librondo accepts: 31 years, which stands for "no limit".
constexpr std::chrono::milliseconds kLongest{1'000'000'000'000};

// Limits a timeout to kLongest. Times below -kLongest become kLongest too: they are overflows of torch's own
// conversion, for example of timedelta.max. Throws a ValueError for 0 and for other negative times; `what` names the
// timeout in the error.
inline std::chrono::milliseconds LimitOf(std::chrono::milliseconds time, const char* what) {
  if (time < -kLongest) return kLongest;
  TORCH_CHECK_VALUE(time.count() > 0, "rondo: ", what, ": expected a timeout above 0, got ", time.count(), " ms");
  return std::min(time, kLongest);
}

// The timeout of an operation: `time` if the operation's options specify a timeout, otherwise the value of `otherwise`.
inline std::chrono::milliseconds LimitOr(std::chrono::milliseconds time, std::chrono::milliseconds otherwise) {
  if (time < -kLongest) return kLongest;  // as above
  return std::min(time.count() > 0 ? time : otherwise, kLongest);
}

}  // namespace rondo_torch
