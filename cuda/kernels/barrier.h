// A barrier among the GPUs of ranks. The barrier is a kernel. It signals to every other rank's GPU that this rank's
// stream has reached the barrier, and ends when all streams have reached it. No host takes part. So an operation can be
// part of a CUDA graph. Like reduce.h, this is C++ that both nvcc and the host's compiler compile.
//
//   rank 0                                  rank 1
//   writes 7 to marks[0] of state 1         writes 7 to marks[1] of state 0     release: publishes all earlier writes
//   waits until own marks[1] >= 7           waits until own marks[0] >= 7       acquire
//
// Marks only grow, and each state counts the barriers of its own rank. So nothing is ever reset, and a graph can be
// launched again unchanged. All ranks pass the same barriers in the same order, and publish with each barrier which
// operation they are in. So a rank that launches another operation is detected before any data moves.
//
// If a rank does not arrive within the timeout, or ranks arrive in different operations, the state is marked as over.
// That is permanent: later barriers of this state return at once, reductions that read `over` do nothing, and the host
// finds the reason in the report. The rank also withdraws its marks in all other states, with the reason and the rank
// at fault. A rank that arrives later must not touch memory that other ranks have returned to their users. It sees from
// the withdrawn mark that the barrier has failed, and ends in the same way. (A rank that saw the mark before the
// withdrawal still reads the other rank's memory. That is allowed, because the memory must stay valid while any rank's
// launch may be under way.)
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/host_device.h"
#include "cuda/kernels/reduce.h"

#ifndef __CUDACC__
#include <sched.h>

#include <ctime>
#endif

namespace rondo::cuda {

// A rank's barrier state, in memory of its GPU. Other ranks' GPUs write the marks. All zeros at first.
struct BarrierState {
  // One cache sector for each mark, because a different rank writes each one.
  struct alignas(32) Mark {
    std::uint64_t barriers = 0;  // number of barriers that the writing rank has begun; or kTakenBack + reason
    // operations of the writing rank's two latest barriers, by parity; two suffice, because no rank is more than one
    // barrier ahead of another
    std::uint64_t operations[2] = {};
    std::uint64_t ended_in = 0;  // the barrier in which the mark was withdrawn
  };
  std::uint64_t barriers = 0;  // number of barriers that the state's rank has begun
  std::uint64_t begun_ns = 0;  // when the latest barrier began
  std::uint64_t over = 0;      // not 0: a barrier has failed
  std::uint32_t is_held = 0;   // a lock: launches must not overlap, but if they do, their barriers run in sequence
  Mark marks[kMaxSources];     // by writing rank
};

// Reports to the host, in the host's pinned memory. All zeros at first.
struct BarrierReport {
  std::uint32_t stop = 0;       // written by the host; not 0: operations in graphs must do nothing and stop waiting
  std::uint32_t over = 0;       // written after the other fields; not 0: operations in graphs have failed or must stop
  std::uint64_t operation = 0;  // the operation in which the failure was found
  std::uint64_t strayed[kMaxSources] = {};  // by rank: the wrong operation in which the rank arrived; 0: none
  std::uint8_t missing[kMaxSources] = {};   // by rank: 1 if the rank did not arrive in time
};
// value in `strayed`: the operation is not known, because another rank found the mismatch
inline constexpr std::uint64_t kSomeOther = ~std::uint64_t{0};

// The kernel's only parameter. Pointers are addresses of the GPU.
struct BarrierArguments {
  BarrierState* states[kMaxSources] = {};  // indexed by rank
  BarrierReport* report = nullptr;
  std::uint64_t timeout_ns = 0;
  std::uint64_t operation = 0;  // equal on all ranks; not 0 if there are several ranks
  std::int32_t rank = 0;
  std::int32_t count = 0;  // number of ranks
};
static_assert(std::is_trivially_copyable_v<BarrierArguments>);

// A withdrawn mark is kTakenBack plus the reason. r: rank r did not arrive. kMaxSources + r: rank r arrived in another
// operation. 2 * kMaxSources: the host has stopped the operation.
inline constexpr std::uint64_t kTakenBack = ~std::uint64_t{0} - 2 * kMaxSources;

// ---- words that this GPU shares with other GPUs and CPUs of the host ----

RONDO_HOST_DEVICE void StoreForAll(std::uint64_t* to, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
#else
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
#endif
}
RONDO_HOST_DEVICE void StoreForAll(std::uint32_t* to, std::uint32_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
#else
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
#endif
}
RONDO_HOST_DEVICE std::uint64_t LoadOfAll(const std::uint64_t* from) {
#ifdef __CUDA_ARCH__
  std::uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
#else
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
#endif
}
RONDO_HOST_DEVICE std::uint32_t LoadOfAll(const std::uint32_t* from) {
#ifdef __CUDA_ARCH__
  std::uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
#else
  return __atomic_load_n(from, __ATOMIC_ACQUIRE);
#endif
}

// An atomic exchange, only for words that no other GPU or CPU accesses.
RONDO_HOST_DEVICE std::uint32_t Exchange(std::uint32_t* at, std::uint32_t value) {
#ifdef __CUDA_ARCH__
  std::uint32_t before;
  asm volatile("atom.acq_rel.gpu.exch.b32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(value) : "memory");
  return before;
#else
  return __atomic_exchange_n(at, value, __ATOMIC_ACQ_REL);
#endif
}

RONDO_HOST_DEVICE std::uint64_t NowNs() {
#ifdef __CUDA_ARCH__
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
#endif
}

RONDO_HOST_DEVICE void Pause() {
#ifdef __CUDA_ARCH__
  __nanosleep(200);
#else
  sched_yield();
#endif
}

// ---- a barrier ----
//
// The kernel has one block. First one thread calls BeginBarrier. Then each thread r calls Arrive, Await and TakeBack
// for rank r. Then one thread calls EndBarrier. All threads finish one function before any thread calls the next.

// Returns the barrier's number; 0 if `over` is set in this rank's state.
RONDO_HOST_DEVICE std::uint64_t BeginBarrier(const BarrierArguments& arguments) {
  BarrierState& own = *arguments.states[arguments.rank];
  while (Exchange(&own.is_held, 1) != 0) Pause();  // the launch that holds the lock ends at its timeout at the latest
  if (LoadOfAll(&own.over) == 0) {
    own.begun_ns = NowNs();
    return ++own.barriers;
  }
  StoreForAll(&own.is_held, 0);
  return 0;
}

RONDO_HOST_DEVICE void Arrive(const BarrierArguments& arguments, std::int32_t peer, std::uint64_t barrier) {
  if (peer == arguments.rank || peer >= arguments.count) return;
  BarrierState::Mark& mark = arguments.states[peer]->marks[arguments.rank];
  mark.operations[barrier % 2] = arguments.operation;
  StoreForAll(&mark.barriers, barrier);
}

// NoteMissing and NoteStrayed write the reason into the report. Several threads may write the same reason.
RONDO_HOST_DEVICE void NoteMissing(const BarrierArguments& arguments, std::uint64_t rank) {
  arguments.report->missing[rank] = 1;
  arguments.report->operation = arguments.operation;
}
RONDO_HOST_DEVICE void NoteStrayed(const BarrierArguments& arguments, std::uint64_t rank, std::uint64_t operation) {
  arguments.report->strayed[rank] = operation;
  arguments.report->operation = arguments.operation;
}

// Reports the reason that a peer's withdrawn mark gives. The reason may be that a rank was in another operation. If the
// peer's own operation in this barrier also differs from this rank's operation, the peer is reported instead.
RONDO_HOST_DEVICE void NoteTakenBack(const BarrierArguments& arguments, std::uint64_t found, std::int32_t peer,
                                     std::uint64_t barrier) {
  const BarrierState::Mark& theirs = arguments.states[arguments.rank]->marks[peer];
  const std::uint64_t operation_there = theirs.operations[barrier % 2];
  if (found < kMaxSources) return NoteMissing(arguments, found);
  if (found == 2 * kMaxSources) return;
  // If false, the peer withdrew its mark in an earlier or later barrier than this one.
  const bool met_here = theirs.ended_in == barrier;
  if (met_here && operation_there != arguments.operation)
    return NoteStrayed(arguments, static_cast<std::uint64_t>(peer), operation_there);
  const std::uint64_t strayed = found - kMaxSources;
  if (strayed != static_cast<std::uint64_t>(arguments.rank) && arguments.report->strayed[strayed] == 0)
    NoteStrayed(arguments, strayed, kSomeOther);
}

RONDO_HOST_DEVICE void Await(const BarrierArguments& arguments, std::int32_t peer, std::uint64_t barrier) {
  // A read of `stop` crosses the bus to the host. So the thread for this rank itself reads it only once. A thread that
  // waits for a peer reads it only after every kLooksInARow looks, when it also checks the time.
  constexpr std::uint32_t kLooksInARow = 256;
  if (peer >= arguments.count) return;
  BarrierState& own = *arguments.states[arguments.rank];
  const auto end = [&] { StoreForAll(&own.over, 1); };
  if (peer == arguments.rank) {
    if (LoadOfAll(&arguments.report->stop) != 0) end();
    return;
  }
  const BarrierState::Mark& theirs = own.marks[peer];
  for (std::uint32_t looks = 1;; ++looks) {
    const std::uint64_t mark = LoadOfAll(&theirs.barriers);
    if (mark >= kTakenBack) {
      NoteTakenBack(arguments, mark - kTakenBack, peer, barrier);
      return end();
    }
    if (mark >= barrier) {
      const std::uint64_t operation_there = theirs.operations[barrier % 2];
      if (operation_there == arguments.operation) return;
      NoteStrayed(arguments, static_cast<std::uint64_t>(peer), operation_there);
      return end();
    }
    if (looks % kLooksInARow == 0) {
      // read before the clock: if another thread sets it at the timeout, this thread still reports its own late peer
      const bool over = LoadOfAll(&own.over) != 0;
      const bool late = NowNs() >= own.begun_ns + arguments.timeout_ns;
      if (late && LoadOfAll(&theirs.barriers) != mark) continue;  // the peer arrived while this kernel was suspended
      if (late) NoteMissing(arguments, static_cast<std::uint64_t>(peer));
      if (late || over || LoadOfAll(&arguments.report->stop) != 0) return end();
    }
    Pause();
  }
}

// The reason to add to kTakenBack.
RONDO_HOST_DEVICE std::uint64_t Found(const BarrierArguments& arguments) {
  for (std::uint64_t rank = 0; rank < kMaxSources; ++rank)
    if (arguments.report->missing[rank] != 0) return rank;
  for (std::uint64_t rank = 0; rank < kMaxSources; ++rank)
    if (arguments.report->strayed[rank] != 0) return kMaxSources + rank;
  return 2 * kMaxSources;
}

RONDO_HOST_DEVICE void TakeBack(const BarrierArguments& arguments, std::int32_t peer) {
  if (peer == arguments.rank || peer >= arguments.count) return;
  if (LoadOfAll(&arguments.states[arguments.rank]->over) == 0) return;
  BarrierState::Mark& mark = arguments.states[peer]->marks[arguments.rank];
  mark.ended_in = arguments.states[arguments.rank]->barriers;
  StoreForAll(&mark.barriers, kTakenBack + Found(arguments));
}

RONDO_HOST_DEVICE void EndBarrier(const BarrierArguments& arguments) {
  BarrierState& own = *arguments.states[arguments.rank];
  if (LoadOfAll(&own.over) != 0) StoreForAll(&arguments.report->over, 1);
  StoreForAll(&own.is_held, 0);
}

}  // namespace rondo::cuda
