// Fences of unequal weight, by membarrier (man 2), between threads of all processes of this machine that have joined:
// where one side stores and then looks often, and the other rarely, the frequent one needs none of the processor's.
//
//   often                rarely
//   x = 1                y = 1
//   LightFence()         HeavyFence()
//   look at y            look at x        at least one of the two sees the other's
//
// A heavy one makes every processor that runs a joined process do a full fence, at some place in its program: where
// that comes after the store of x, x is seen here; where it comes before, so does it before the look at y.
#pragma once

#include <atomic>

namespace rondo::shm {

// False: the kernel lacks it, or a filter forbids it. May take some milliseconds, the first time in a process.
bool JoinFences();

// REQUIRES: who stores and looks here has joined, as has whoever calls the heavy one.
inline void LightFence() { std::atomic_signal_fence(std::memory_order_seq_cst); }
// Some microseconds. What refuses it after the process has joined makes it none.
void HeavyFence();

}  // namespace rondo::shm
