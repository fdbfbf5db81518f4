// Fences of unequal weight, by membarrier (man 2), between threads of all processes of this machine that have joined.
// If one side stores and then looks often, and the other side rarely, the frequent one needs no fence of the processor.
//
//   often                rarely
//   x = 1                y = 1
//   LightFence()         HeavyFence()
//   look at y            look at x        at least one of the two sees the other's
//
// A heavy fence makes every processor that runs a joined process do a full fence at some place of its program. If that
// place comes after the store of x, x is seen here. If it comes before, it also comes before the look at y, which then
// sees y.
#pragma once

#include <atomic>

namespace rondo::shm {

// False: the kernel has no membarrier, or a filter forbids it. May take some milliseconds, the first time in a process.
bool JoinFences();

// REQUIRES: this process has joined, and so have those that call HeavyFence.
inline void LightFence() { std::atomic_signal_fence(std::memory_order_seq_cst); }
// Takes some microseconds. If the system refuses it after the process has joined, there is no fence.
void HeavyFence();

}  // namespace rondo::shm
