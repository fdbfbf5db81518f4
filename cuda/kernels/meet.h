// Meetings of ranks that their GPUs hold among themselves: a kernel tells every other rank's GPU that this rank's
// stream has come so far, and ends when all streams have. So an operation can be part of a CUDA graph, in which no host
// takes part. As in fold.h, C++ that nvcc and the host's compiler both understand.
//
//   rank 0                                  rank 1
//   place 1, marks[0] = 7                   place 0, marks[1] = 7            release: with all that was written before
//   until marks[1] of its own place >= 7    until marks[0] of its own >= 7   acquire
//
// Marks only grow, and each place counts its own rank's meetings. So nothing is ever reset, and a graph is launched
// again as it is. All ranks hold the same meetings in the same order, and say with each in which operation they are:
// who launches another one is found out before anything is done.
//
// Who does not come is waited for until the timeout. Then the place is over, for good, as it is where ranks meet in
// different operations: its meetings return at once, folds that look at it do nothing, and the host reads in the report
// why. Before that the rank takes its marks back in all other places, with the name of who is to blame: who comes later
// must not touch memory that its owner has got back, and is over as well. (Who saw the mark before still reads the
// memory of a rank that gives up then: memory is lent while any rank's launch may be under way.)
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

// In memory of a rank's GPU, which the others' write. Zeros at first.
struct MeetingPlace {
  struct alignas(32) Mark {            // a sector of a cache's line each, for each has another writer
    std::uint64_t meetings = 0;        // that the rank has begun
    std::uint64_t operations[2] = {};  // of the last two: nobody is further ahead, as all must come to each
    std::uint64_t ended_in = 0;        // the meeting in which it was taken back
  };
  std::uint64_t meetings = 0;  // that its rank has begun
  std::uint64_t begun_ns = 0;  // the last one
  std::uint64_t over = 0;
  std::uint32_t is_held = 0;  // by a meeting: two launches at once, which are against the rules, take turns
  Mark marks[kMostSources];   // by rank
};

// In pinned memory of the host. Zeros at first.
struct MeetingReport {
  std::uint32_t stop = 0;  // the host's word: nobody waits or does anything any more
  std::uint32_t over = 0;  // written last: somebody was missing, came in another operation, or has ended it all
  std::uint64_t operation = 0;
  std::uint64_t strayed[kMostSources] = {};  // by rank: the other operation in which it came; 0: it did not
  std::uint8_t missing[kMostSources] = {};   // by rank
};
inline constexpr std::uint64_t kSomeOther = ~std::uint64_t{0};  // in `strayed`: another rank found it

// The kernel's only parameter. Pointers are the GPU's.
struct MeetArguments {
  MeetingPlace* places[kMostSources] = {};  // by rank
  MeetingReport* report = nullptr;
  std::uint64_t timeout_ns = 0;
  std::uint64_t operation = 0;  // the same on all ranks, and not 0 where others are met
  std::int32_t rank = 0;
  std::int32_t count = 0;  // of ranks
};
static_assert(std::is_trivially_copyable_v<MeetArguments>);

// A mark that was taken back: for want of the rank whose number is added; because rank r came in another operation,
// kMostSources + r; by the host's word, 2 * kMostSources.
inline constexpr std::uint64_t kTakenBack = ~std::uint64_t{0} - 2 * kMostSources;

// ---- words that others write: GPUs of this host and its processors ----

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

// Of this GPU's own alone.
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

// ---- a meeting ----
//
// Of the only block one thread calls Begin, then each thread r Arrive, Await and TakeBack for rank r, and then one End:
// all of them each before any the next.

// The meeting's number; 0: the place is over.
RONDO_HOST_DEVICE std::uint64_t BeginMeeting(const MeetArguments& arguments) {
  MeetingPlace& own = *arguments.places[arguments.rank];
  while (Exchange(&own.is_held, 1) != 0) Pause();  // whoever holds it ends, at its timeout
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

// What the report says once it is over. Several threads may say the same.
RONDO_HOST_DEVICE void NoteMissing(const MeetArguments& arguments, std::uint64_t rank) {
  arguments.report->missing[rank] = 1;
  arguments.report->operation = arguments.operation;
}
RONDO_HOST_DEVICE void NoteStrayed(const MeetArguments& arguments, std::uint64_t rank, std::uint64_t operation) {
  arguments.report->strayed[rank] = operation;
  arguments.report->operation = arguments.operation;
}

// What a peer has found, as the mark says that it has taken back. Each judges from its own operation, so only one that
// is in ours is believed.
RONDO_HOST_DEVICE void NoteTakenBack(const MeetArguments& arguments, std::uint64_t found, std::int32_t peer,
                                     std::uint64_t meeting) {
  const MeetingPlace::Mark& theirs = arguments.places[arguments.rank]->marks[peer];
  const std::uint64_t operation_there = theirs.operations[meeting % 2];
  if (found < kMostSources) return NoteMissing(arguments, found);
  if (found == 2 * kMostSources) return;
  const bool met_here = theirs.ended_in == meeting;  // else it has heard of it from another one, behind us or ahead
  if (met_here && operation_there != arguments.operation)
    return NoteStrayed(arguments, static_cast<std::uint64_t>(peer), operation_there);
  const std::uint64_t strayed = found - kMostSources;
  if (strayed != static_cast<std::uint64_t>(arguments.rank) && arguments.report->strayed[strayed] == 0)
    NoteStrayed(arguments, strayed, kSomeOther);
}

RONDO_HOST_DEVICE void Await(const MeetArguments& arguments, std::int32_t peer, std::uint64_t meeting) {
  // The host's word lies beyond a bus. Whose own rank this is asks for it, while the others wait; they do so now and
  // then, as they look at the time.
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
      const bool over = LoadOfAll(&own.over) != 0;  // before the time: who else is late is named, too
      const bool late = NowNs() >= own.begun_ns + arguments.timeout_ns;
      if (late && LoadOfAll(&theirs.meetings) != mark) continue;  // it has come while this kernel stood still
      if (late) NoteMissing(arguments, static_cast<std::uint64_t>(peer));
      if (late || over || LoadOfAll(&arguments.report->stop) != 0) return end();
    }
    Pause();
  }
}

// What marks that are taken back say.
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
