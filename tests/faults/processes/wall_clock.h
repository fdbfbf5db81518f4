// Makes the wall clock jump for this process alone. Every caller that asks libc for CLOCK_REALTIME gets the changed
// time. The monotonic clock is not changed.
#pragma once

#include <cstdint>

namespace rondo::processes {

void JumpWallClock(std::int64_t seconds);  // negative: backwards
// The number of reads of the wall clock in this process since the first jump.
std::uint64_t ReadsOfJumpedClock();

}  // namespace rondo::processes
