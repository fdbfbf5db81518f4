// A barrier among the GPUs of ranks; names here call it a meeting. The barrier is a kernel. It signals to every other
// rank's GPU that this rank's stream has reached the barrier, and ends when all streams have. So an operation can be
// part of a CUDA graph, in which no host takes part. Like fold.h, this is C++ that both nvcc and the host's compiler
// compile.
//
//   rank 0                                  rank 1
//   place 1, marks[0] = 7                   place 0, marks[1] = 7            release: publishes all earlier writes
//   until marks[1] of its own place >= 7    until marks[0] of its own >= 7   acquire
//
// Marks only grow, and each place counts the barriers of its own rank. So nothing is ever reset, and a graph can be
// launched again unchanged. All ranks pass the same barriers in the same order, and publish with each barrier which
// operation they are in. So a rank that launches another operation is detected before any data moves.
//
// If a rank does not arrive within the timeout, or ranks arrive in different operations, the place is marked as over.
// That is permanent: later barriers of this place return at once, folds that read `over` do nothing, and the host finds
// the reason in the report. The rank also withdraws its marks in all other places, with the reason and the rank at
// fault. A rank that arrives later must not touch memory that its owner has got back; the withdrawn mark tells it that
// the barrier has failed, and it ends in the same way. (A rank that saw the mark before the withdrawal still reads the
// other rank's memory. That is allowed, because the memory must stay valid while any rank's launch may be under way.)
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/kernels/fold.h"
#include "cuda/kernels/host_device.h"

#ifndef __CUDACC__
#include <sched.h>

#include <ctime>
#endif

namespace rondo::cuda {

// A rank's barrier state, in memory of its GPU. Other ranks' GPUs write the marks. All zeros at first.
struct MeetingPlace {
  // One cache sector for each mark, because each has another writer.
  struct alignas(32) Mark {
    std::uint64_t meetings = 0;        // number of barriers that the writing rank has begun; or kTakenBack + reason
    std::uint64_t operations[2] = {};  // operations of its last two barriers, by parity; no rank is further ahead
    std::uint64_t ended_in = 0;        // the barrier in which the mark was withdrawn
  };
  std::uint64_t meetings = 0;  // number of barriers that the place's rank has begun
  std::uint64_t begun_ns = 0;  // when the last one began
  std::uint64_t over = 0;      // not 0: a barrier has failed
  std::uint32_t is_held = 0;   // a lock: two launches at once are forbidden, but if they happen, they run in sequence
  Mark marks[kMostSources];    // by writing rank
};

// Reports to the host, in the host's pinned memory. All zeros at first.
struct MeetingReport {
  std::uint32_t stop = 0;       // written by the host: operations in graphs must do nothing and wait no longer
  std::uint32_t over = 0;       // written last: a rank was missing, arrived in another operation, or a host has stopped
  std::uint64_t operation = 0;  // the operation in which the failure was found
  std::uint64_t strayed[kMostSources] = {};  // by rank: the other operation in which it arrived; 0: none
  std::uint8_t missing[kMostSources] = {};   // by rank: 1 if it did not arrive in time
};
inline constexpr std::uint64_t kSomeOther = ~std::uint64_t{0};  // in `strayed`: another rank found the mismatch

// The kernel's only parameter. Pointers are addresses of the GPU.
struct MeetArguments {
  MeetingPlace* places[kMostSources] = {};  // indexed by rank
  MeetingReport* report = nullptr;
  std::uint64_t timeout_ns = 0;
  std::uint64_t operation = 0;  // must be equal on all ranks, and not 0 if there are several
  std::int32_t rank = 0;
  std::int32_t count = 0;  // number of ranks
};
static_assert(std::is_trivially_copyable_v<MeetArguments>);

// A withdrawn mark is kTakenBack plus the reason. r: rank r did not arrive. kMostSources + r: rank r arrived in another
// operation. 2 * kMostSources: the host has stopped the operation.
inline constexpr std::uint64_t kTakenBack = ~std::uint64_t{0} - 2 * kMostSources;

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

// For words that only this GPU accesses.
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
// The kernel has one block. First one thread calls BeginMeeting. Then each thread r calls Arrive, Await and TakeBack
// for rank r. Then one thread calls EndMeeting. All threads finish one function before any thread calls the next.

// Returns the barrier's number; 0 if the place is over.
RONDO_HOST_DEVICE std::uint64_t BeginMeeting(const MeetArguments& arguments) {
  MeetingPlace& own = *arguments.places[arguments.rank];
  while (Exchange(&own.is_held, 1) != 0) Pause();  // the holder ends at its timeout at the latest
  if (LoadOfAll(&own.over) == 0) {
    own.begun_ns = NowNs();
    return ++own.meetings;
  }
  StoreForAll(&own.is_held, 0);
  return 0;
}

RONDO_HOST_DEVICE void Arrive(const MeetArguments& arguments, std::int32_t peer, std::uint64_t meeting) {
  if (peer == arguments.rank || peer >= arguments.count) return;
  MeetingPlace::Mark& mark = arguments.places[peer]->marks[arguments.rank];
  mark.operations[meeting % 2] = arguments.operation;
  StoreForAll(&mark.meetings, meeting);
}

// Write the reason into the report. Several threads may write the same reason.
RONDO_HOST_DEVICE void NoteMissing(const MeetArguments& arguments, std::uint64_t rank) {
  arguments.report->missing[rank] = 1;
  arguments.report->operation = arguments.operation;
}
RONDO_HOST_DEVICE void NoteStrayed(const MeetArguments& arguments, std::uint64_t rank, std::uint64_t operation) {
  arguments.report->strayed[rank] = operation;
  arguments.report->operation = arguments.operation;
}

// Reports the reason in a peer's withdrawn mark. A peer decides from the view of its own operation, so this rank only
// accepts the reason if the peer is in the same operation.
RONDO_HOST_DEVICE void NoteTakenBack(const MeetArguments& arguments, std::uint64_t found, std::int32_t peer,
                                     std::uint64_t meeting) {
  const MeetingPlace::Mark& theirs = arguments.places[arguments.rank]->marks[peer];
  const std::uint64_t operation_there = theirs.operations[meeting % 2];
  if (found < kMostSources) return NoteMissing(arguments, found);
  if (found == 2 * kMostSources) return;
  // If false, the peer withdrew its mark in an earlier or later barrier than this one.
  const bool met_here = theirs.ended_in == meeting;
  if (met_here && operation_there != arguments.operation)
    return NoteStrayed(arguments, static_cast<std::uint64_t>(peer), operation_there);
  const std::uint64_t strayed = found - kMostSources;
  if (strayed != static_cast<std::uint64_t>(arguments.rank) && arguments.report->strayed[strayed] == 0)
    NoteStrayed(arguments, strayed, kSomeOther);
}

RONDO_HOST_DEVICE void Await(const MeetArguments& arguments, std::int32_t peer, std::uint64_t meeting) {
  // A read of `stop` crosses the bus to the host. The thread of this rank itself reads it once, while the other threads
  // wait for peers; those read it only now and then, when they check the time.
  constexpr std::uint32_t kLooksInARow = 256;
  if (peer >= arguments.count) return;
  MeetingPlace& own = *arguments.places[arguments.rank];
  const auto end = [&] { StoreForAll(&own.over, 1); };
  if (peer == arguments.rank) {
    if (LoadOfAll(&arguments.report->stop) != 0) end();
    return;
  }
  const MeetingPlace::Mark& theirs = own.marks[peer];
  for (std::uint32_t looks = 1;; ++looks) {
    const std::uint64_t mark = LoadOfAll(&theirs.meetings);
    if (mark >= kTakenBack) {
      NoteTakenBack(arguments, mark - kTakenBack, peer, meeting);
      return end();
    }
    if (mark >= meeting) {
      const std::uint64_t operation_there = theirs.operations[meeting % 2];
      if (operation_there == arguments.operation) return;
      NoteStrayed(arguments, static_cast<std::uint64_t>(peer), operation_there);
      return end();
    }
    if (looks % kLooksInARow == 0) {
      const bool over = LoadOfAll(&own.over) != 0;  // read before the time, so that every late rank gets reported
      const bool late = NowNs() >= own.begun_ns + arguments.timeout_ns;
      if (late && LoadOfAll(&theirs.meetings) != mark) continue;  // the peer arrived while this kernel was suspended
      if (late) NoteMissing(arguments, static_cast<std::uint64_t>(peer));
      if (late || over || LoadOfAll(&arguments.report->stop) != 0) return end();
    }
    Pause();
  }
}

// The reason to add to kTakenBack.
RONDO_HOST_DEVICE std::uint64_t Found(const MeetArguments& arguments) {
  for (std::uint64_t rank = 0; rank < kMostSources; ++rank)
    if (arguments.report->missing[rank] != 0) return rank;
  for (std::uint64_t rank = 0; rank < kMostSources; ++rank)
    if (arguments.report->strayed[rank] != 0) return kMostSources + rank;
  return 2 * kMostSources;
}

RONDO_HOST_DEVICE void TakeBack(const MeetArguments& arguments, std::int32_t peer) {
  if (peer == arguments.rank || peer >= arguments.count) return;
  if (LoadOfAll(&arguments.places[arguments.rank]->over) == 0) return;
  MeetingPlace::Mark& mark = arguments.places[peer]->marks[arguments.rank];
  mark.ended_in = arguments.places[arguments.rank]->meetings;
  StoreForAll(&mark.meetings, kTakenBack + Found(arguments));
}

RONDO_HOST_DEVICE void EndMeeting(const MeetArguments& arguments) {
  MeetingPlace& own = *arguments.places[arguments.rank];
  if (LoadOfAll(&own.over) != 0) StoreForAll(&arguments.report->over, 1);
  StoreForAll(&own.is_held, 0);
}

}  // namespace rondo::cuda
