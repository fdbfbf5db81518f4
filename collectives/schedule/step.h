// A schedule: a collective as data. For each rank, the list of steps it takes; values that can be copied, compared,
// printed, parsed (text.h), proved (verify.h) and run (collectives/engine).
//
// A collective works on a virtual vector of blocks (layout.h), each cut into the same number of chunks by a BlockGrid;
// steps name ranges of chunks, never bytes, so one schedule serves every count. A chunk may be empty (fewer elements
// than chunks): its transfers keep their place in the lanes' order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "collectives/schedule/collective.h"

namespace rondo {

// Three pieces of memory. Input and output hold the blocks that layout.h says; in place they are one memory, named
// kOutput. Scratch belongs to the engine and holds the chunks that RankSchedule::scratch names.
enum class BufferId : std::uint8_t { kInput, kOutput, kScratch };

// Chunks [first, first + count) of the grid; count may be 0 (barriers).
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
  kRecvReduce,  // destination = own op incoming, or incoming op own (incoming_left); own lies in `source`
  kCopy,        // source -> destination, on this rank
  kReduce,      // destination = destination op source, or source op destination (incoming_left), on this rank
};
inline bool IsLocal(StepKind kind) { return kind == StepKind::kCopy || kind == StepKind::kReduce; }

// A step may go as far as the earlier step it depends on has gone, byte for byte where their ranges overlap. A
// dependency on a step without chunks (a signal) has nothing to overlap: the whole step must be done before this one
// begins.
enum class DependencyKind : std::uint8_t {
  kReadAfterWrite,   // this reads what `step` writes: follows its bytes done
  kWriteAfterRead,   // this overwrites what `step` reads: follows its bytes released
  kWriteAfterWrite,  // this overwrites what `step` writes: follows its bytes done
};
struct Dependency {
  std::uint32_t step = 0;  // index into the same rank's steps, smaller than the depending step's
  DependencyKind kind = DependencyKind::kReadAfterWrite;
  bool operator==(const Dependency&) const = default;
};

struct Step {
  StepKind kind = StepKind::kCopy;
  Rank peer = kNoRank;  // of send, recv, recv_reduce
  std::uint32_t transfer =
      0;              // of send, recv, recv_reduce: counts the transfers of the global schedule; pairs both ends
  ChunkRange chunks;  // the same in source and destination
  BufferId source = BufferId::kInput;        // of send, copy, reduce; of recv_reduce: its own operand
  BufferId destination = BufferId::kOutput;  // of recv, recv_reduce, copy; of reduce: also an operand
  // Of recv_reduce: the incoming operand is the left one (it comes from a lower rank). Of reduce: the source is.
  bool incoming_left = false;
  bool scale = false;   // of copy: multiply by the rank's factor (pre-multiplied sum)
  bool finish = false;  // of recv_reduce, reduce, copy: the result is complete here; an average divides
  std::vector<Dependency> dependencies = {};  // sorted by step
  bool operator==(const Step&) const = default;
};

// One rank's part. Steps stand in an order that respects all dependencies; the steps of one lane direction (sends to
// one peer; receives from one peer) and the local ones (copies and reduces) each run strictly in this order, else steps
// run as their dependencies allow. Sends to one peer between which the rank has nothing but sends are a *run*: they may
// be held back until all of them may go, so that they go together.
inline constexpr std::uint32_t kMostTogether = 5;  // how many of a run go together
struct RankSchedule {
  Rank rank = 0;
  // What this rank keeps in scratch: sorted, neither overlapping nor adjacent; packed in this order.
  std::vector<ChunkRange> scratch = {};
  std::vector<Step> steps = {};
  bool operator==(const RankSchedule&) const = default;
};

// What a schedule is for. The cache key of a plan: never a pointer, never a size.
struct ScheduleKey {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  int world_size = 1;
  Rank root = 0;         // of collectives with a root; else 0
  bool in_place = true;  // input and output are one memory (layout.h: at which ranks)
  bool scaled = false;   // pre-multiplied sum: every rank's contribution is scaled once, before anything else
  // By rank, which host it is on: 0, 1, ... in the order of first appearance. Null: all on one. Outlives the key.
  const std::vector<int>* hosts = nullptr;
  // By value: two lists of the same hosts are equal.
  bool operator==(const ScheduleKey& other) const;
};

struct Schedule {
  ScheduleKey key;                  // its `hosts` null: the schedule has its own
  std::vector<int> hosts = {};      // of the key that it was built for
  std::uint32_t chunks = 1;         // of the whole virtual vector
  std::vector<RankSchedule> ranks;  // by rank
  bool operator==(const Schedule&) const = default;
};

}  // namespace rondo
