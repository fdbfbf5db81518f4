// A wall clock that jumps, for this process alone: affects every caller that asks libc for CLOCK_REALTIME. The
// monotonic clock is not changed.
#pragma once

#include <cstdint>

namespace rondo::processes {

void JumpWallClock(std::int64_t seconds);  // forwards, or back
// How often any caller has read the wall clock after a jump.
std::uint64_t ReadsOfJumpedClock();

}  // namespace rondo::processes
