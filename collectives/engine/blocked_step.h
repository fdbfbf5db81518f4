// How far a blocked step has come. The failure detector uses it to decide whether the peer is at fault, and error
// messages contain it.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace rondo {

struct BlockedStep {
  Rank peer = kNoRank;  // the rank that the step waits for
  std::uint32_t step = 0;
  bool sending = false;
  bool started = false;  // a frame of the transfer has begun to arrive or has been written
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_due = 0;
  std::uint32_t rail = 0;
};

}  // namespace rondo
