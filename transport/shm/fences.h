// Fences of unequal weight, by membarrier (man 2), between threads of all processes of this machine that have joined.
// If one side stores and then loads often, and the other side does so rarely, the frequent side needs no processor
// fence.
//
//   often                rarely
//   x = 1                y = 1
//   LightFence()         HeavyFence()
//   load y               load x          at least one side sees the other's store
//
// A heavy fence makes every processor that runs a joined process do a full fence at some point of its program. If that
// point is after the store of x, the rare side sees x. If it is before that store, it is also before the load of y,
// which then sees y.
#pragma once

#include <atomic>

namespace rondo::shm {

// False: the kernel has no membarrier, or a filter forbids it. The first call in a process may take some milliseconds.
bool JoinFences();

// REQUIRES: this process and the processes that call HeavyFence have joined.
inline void LightFence() { std::atomic_signal_fence(std::memory_order_seq_cst); }
// Takes some microseconds. If the system refuses the call although the process has joined, there is no fence.
void HeavyFence();

}  // namespace rondo::shm
