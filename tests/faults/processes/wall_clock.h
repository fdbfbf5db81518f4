// A wall clock that jumps, for this process alone: everybody who asks libc for CLOCK_REALTIME hears it. The monotonic
// clock is left as it is.
#pragma once

#include <cstdint>

namespace rondo::processes {

void JumpWallClock(std::int64_t seconds);  // forwards, or back
// How often the wall clock was read after a jump, by anybody.
std::uint64_t ReadsOfJumpedClock();

}  // namespace rondo::processes
