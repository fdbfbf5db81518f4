// Two fences of unequal cost, made by membarrier (man 2). They are for two threads that each store a value and then
// load another one: the frequent side does so often, the rare side rarely. The frequent side then needs no processor
// fence. The threads may belong to different processes of this machine. Each process must have called JoinFences.
//
//   frequent side        rare side
//   x = 1                y = 1
//   LightFence()         HeavyFence()
//   load y               load x          at least one side sees the other's store
//
// A heavy fence makes every processor that runs such a process execute a full fence at some point of its program. If
// that point is after the store to x, the rare side sees the value of x. Otherwise the point is also before the load of
// y, so the frequent side sees the value of y.
#pragma once

#include <atomic>

namespace rondo::shm {

// Lets this process take part. False: the kernel has no membarrier, or a filter forbids it. The first call in a process
// may take some milliseconds.
bool JoinFences();

// REQUIRES: this process and the processes that call HeavyFence have called JoinFences.
inline void LightFence() { std::atomic_signal_fence(std::memory_order_seq_cst); }
// Takes some microseconds. Has no effect if the system refuses membarrier although this process has joined.
void HeavyFence();

}  // namespace rondo::shm
