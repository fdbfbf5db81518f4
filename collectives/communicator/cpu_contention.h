// Detects whether other processes want this thread's core, by how long a yield takes. The numbers of ranks and cores of
// the host are not enough: other jobs run there, containers have quotas, and ranks in other network namespaces count as
// ranks of other hosts.
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

  // A yield lasted this long. If no other thread is ready to run it takes 0.3 us, otherwise 1.5 us or more: two
  // switches, and what the other thread does in between.
  void OnYield(Duration took) {
    if (took >= long_yield_) {
      score_ = std::min(score_ + kScoreOfLongYield, kMaxScore);
    } else if (score_ > 0) {
      --score_;
    }
  }

  // Whether other threads seem to want this core. True after four long yields in a row, or if for a while more than one
  // in seventeen was long. False again after a thousand short yields, which take less than a millisecond. Interrupts
  // alone make one yield in a hundred long.
  bool is_wanted() const { return score_ >= kWantedScore; }

 private:
  static constexpr int kScoreOfLongYield = 16, kWantedScore = 64, kMaxScore = 1024;
  Duration long_yield_;
  int score_ = 0;
};

}  // namespace rondo
