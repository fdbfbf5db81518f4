// Whether others want this thread's core, learnt from how long it takes to give it away. What a rank knows of its
// host's ranks and cores is not all: other jobs run there, containers have quotas, ranks in other network namespaces
// count as other hosts'.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace rondo {

// Thread rule: one thread at a time.
class Contention {
 public:
  // `long_yield`: Waiter::LongYield.
  explicit Contention(Duration long_yield = std::chrono::microseconds(1)) : long_yield_(long_yield) {}

  // A yield that lasted so long. Where nobody else is ready to run it takes 0.3 us, else 1.5 and more: two switches,
  // and whatever the other does in between.
  void Yielded(Duration took) {
    if (took >= long_yield_) {
      score_ = std::min(score_ + kOfALongOne, kMost);
    } else if (score_ > 0) {
      --score_;
    }
  }

  // Four long ones in a row say so, or more than one in seventeen for a while; a thousand short ones, less than a
  // millisecond, say the opposite. Interrupts make one in a hundred long.
  bool is_wanted() const { return score_ >= kWanted; }

 private:
  static constexpr int kOfALongOne = 16, kWanted = 64, kMost = 1024;
  Duration long_yield_;
  int score_ = 0;
};

}  // namespace rondo
