// A schedule is a collective as data: for each rank, a list of steps. Schedules are values that can be copied,
// compared, printed, parsed (text.h), proved (verify.h) and run (collectives/engine).
//
// A collective works on a virtual vector of blocks (layout.h). A BlockGrid cuts each block into the same number of
// chunks. Steps name ranges of chunks, never bytes, so one schedule works for every count. A chunk may be empty (fewer
// elements than chunks): its transfers still keep their place in the order of the lanes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "collectives/schedule/collective.h"

namespace rondo {

// The three buffers of a rank. Input and output hold the blocks that layout.h says; in place they are one memory, named
// kOutput. Scratch belongs to the engine and holds the chunks that RankSchedule::scratch lists.
enum class BufferId : std::uint8_t { kInput, kOutput, kScratch };

// Chunks [first, first + count) of the grid. The count is 0 in barriers.
struct ChunkRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  std::uint32_t end() const { return first + count; }
  bool Overlaps(const ChunkRange& other) const { return first < other.end() && other.first < end(); }
  bool operator==(const ChunkRange&) const = default;
};

enum class StepKind : std::uint8_t {
  kSend,        // source -> peer
  kRecv,        // peer -> destination
  kRecvReduce,  // destination = own op incoming, or incoming op own (incoming_left); own is read from `source`
  kCopy,        // source -> destination, on this rank
  kReduce,      // destination = destination op source, or source op destination (incoming_left), on this rank
};
inline bool IsLocal(StepKind kind) { return kind == StepKind::kCopy || kind == StepKind::kReduce; }

// A step may run at the same time as an earlier step on which it depends. Where the ranges of both overlap, it may
// follow the earlier step byte by byte, but must not overtake it. A step without chunks (a signal) overlaps with no
// other step: a step that depends on a signal starts only when the signal is done.
enum class DependencyKind : std::uint8_t {
  kReadAfterWrite,   // reads what `step` writes: may read only bytes that `step` has written
  kWriteAfterRead,   // overwrites what `step` reads: may overwrite only bytes that `step` has released
  kWriteAfterWrite,  // overwrites what `step` writes: may overwrite only bytes that `step` has written
};
struct Dependency {
  std::uint32_t step = 0;  // an index into the same rank's steps, smaller than that of the depending step
  DependencyKind kind = DependencyKind::kReadAfterWrite;
  bool operator==(const Dependency&) const = default;
};

struct Step {
  StepKind kind = StepKind::kCopy;
  Rank peer = kNoRank;  // for send, recv, recv_reduce
  // For send, recv, recv_reduce: the transfer's number in the global schedule, equal at both ends.
  std::uint32_t transfer = 0;
  ChunkRange chunks;                   // the same in source and destination
  BufferId source = BufferId::kInput;  // buffer that send, copy and reduce read; for recv_reduce: the own operand
  // buffer that recv, recv_reduce, copy and reduce write; reduce also reads it
  BufferId destination = BufferId::kOutput;
  // recv_reduce: the incoming operand is the left one (it comes from a lower rank). reduce: the source is the left one.
  bool incoming_left = false;
  bool scale = false;  // for copy: multiply by the rank's factor (pre-multiplied sum)
  // for recv_reduce, reduce, copy: the result is complete after this step; if it is an average, this step divides it
  bool finish = false;
  std::vector<Dependency> dependencies = {};  // sorted by step
  bool operator==(const Step&) const = default;
};

// The maximum number of sends of a run that are sent together. A *run* is a series of sends to one peer, between which
// the rank has no steps other than sends. They may be held back until all of them may start.
inline constexpr std::uint32_t kMaxTogether = 5;

// The steps of one rank, in an order that respects all dependencies. The steps of one lane direction (sends to one
// peer; receives from one peer) run strictly in this order, and so do the local steps (copies and reduces). Otherwise
// steps run as their dependencies allow.
struct RankSchedule {
  Rank rank = 0;
  // The chunks that this rank keeps in scratch: sorted, neither overlapping nor adjacent; packed in this order.
  std::vector<ChunkRange> scratch = {};
  std::vector<Step> steps = {};
  bool operator==(const RankSchedule&) const = default;
};

// The inputs that determine a schedule; also the cache key of a plan. It contains neither user pointers nor sizes.
struct ScheduleKey {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  int world_size = 1;
  Rank root = 0;         // for collectives with a root; otherwise 0
  bool in_place = true;  // input and output are one memory; layout.h says on which ranks
  bool scaled = false;   // pre-multiplied sum: every rank's contribution is scaled once, before anything else
  // The number of each rank's host. Hosts are numbered 0, 1, ... in the order of their lowest ranks. Null: all ranks
  // share one host. Must outlive the key.
  const std::vector<int>* hosts = nullptr;
  // Compares the lists of hosts by value.
  bool operator==(const ScheduleKey& other) const;
};

struct Schedule {
  ScheduleKey key;                  // its `hosts` is null, because the schedule has its own list
  std::vector<int> hosts = {};      // the hosts of the key for which it was built
  std::uint32_t chunks = 1;         // the number of chunks of all blocks together
  std::vector<RankSchedule> ranks;  // by rank
  bool operator==(const Schedule&) const = default;
};

}  // namespace rondo
