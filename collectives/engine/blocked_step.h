// Where a step that cannot go on has stopped, for decisions about its peer and for error messages.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace rondo {

struct BlockedStep {
  Rank peer = kNoRank;  // the step waits for it
  std::uint32_t step = 0;
  bool sending = false;
  bool started = false;  // the transfer's first frame has been seen (or written)
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_due = 0;
  std::uint32_t rail = 0;
};

}  // namespace rondo
