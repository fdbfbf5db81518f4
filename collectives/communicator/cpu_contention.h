// Measures how long a yield takes, to detect whether other processes want this thread's CPU core. The numbers of ranks
// and CPU cores of the host are not enough to know this: other jobs run there, containers have quotas, and ranks in
// other network namespaces count as ranks of other hosts.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace rondo {

// Thread rule: one thread at a time.
class CpuContentionDetector {
 public:
  // `long_yield`: Waiter::LongYield.
  explicit CpuContentionDetector(Duration long_yield = std::chrono::microseconds(1)) : long_yield_(long_yield) {}

  // Call it after each yield, with its duration. A yield takes 0.3 us if no other thread is ready to run. Otherwise it
  // takes 1.5 us or more, because the CPU switches threads twice, and the other thread runs in between.
  void OnYield(Duration took) {
    if (took >= long_yield_) {
      score_ = std::min(score_ + kScoreOfLongYield, kMaxScore);
    } else if (score_ > 0) {
      --score_;
    }
  }

  // Whether other threads seem to want this core. It becomes true after four long yields in a row, or if for a while
  // more than one yield in seventeen was long. It becomes false after a thousand short yields, which take less than a
  // millisecond. Interrupts alone make one yield in a hundred long.
  bool is_wanted() const { return score_ >= kWantedScore; }

 private:
  static constexpr int kScoreOfLongYield = 16, kWantedScore = 64, kMaxScore = 1024;
  Duration long_yield_;
  int score_ = 0;
};

}  // namespace rondo
