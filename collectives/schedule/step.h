// A schedule: a collective as data. For each rank, the list of steps it takes; values that can be copied, compared,
// printed, parsed (text.h), proved (verify.h) and run (collectives/engine).
//
// The vector that a collective works on is cut into `chunks` chunks by a ChunkGrid; steps name ranges of chunks, never
// bytes, so one schedule serves every count. A chunk may be empty (fewer elements than chunks): its transfers keep
// their place in the lanes' order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace rondo {

// The numbers go over the wire (docs/WIRE.md): append, never renumber.
enum class Collective : std::uint8_t {
  kAllReduce = 1,
  kBroadcast,
  kBarrier,
};
std::string_view Name(Collective collective);  // "all_reduce"
std::optional<Collective> ParseCollective(std::string_view name);

// The numbers go over the wire: append, never renumber.
enum class Algorithm : std::uint8_t {
  kRing = 1,           // all-reduce
  kTree,               // all-reduce, broadcast: binomial
  kRecursiveHalving,   // all-reduce: Rabenseifner's halving and doubling
  kRecursiveDoubling,  // all-reduce
  kScatterAllGather,   // broadcast
  kDissemination,      // barrier
};
std::string_view Name(Algorithm algorithm);  // "recursive_halving"
std::optional<Algorithm> ParseAlgorithm(std::string_view name);

// Three pieces of memory of equal length and layout: chunk c lies at the same offset in each. In place, input and
// output are one memory. Scratch belongs to the engine and exists only if some step names it.
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
};

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
  BufferId source = BufferId::kInput;        // of send, copy; of recv_reduce: its own operand
  BufferId destination = BufferId::kOutput;  // of recv, recv_reduce, copy
  bool incoming_left = false;  // of recv_reduce: the incoming operand is the left one (it comes from a lower rank)
  bool scale = false;          // of copy: multiply by the rank's factor (pre-multiplied sum)
  bool finish = false;         // of recv_reduce, copy: the result is complete here; an average divides
  std::vector<Dependency> dependencies = {};  // sorted by step
  bool operator==(const Step&) const = default;
};

// One rank's part. Steps stand in an order that respects all dependencies; the steps of one lane direction (sends to
// one peer; receives from one peer) run strictly in this order, all others as their dependencies allow.
struct RankSchedule {
  Rank rank = 0;
  std::vector<Step> steps;
  bool operator==(const RankSchedule&) const = default;
};

// What a schedule is for. The cache key of a plan: never a pointer, never a size.
struct ScheduleKey {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  int world_size = 1;
  Rank root = 0;         // of broadcast; else 0
  bool in_place = true;  // input and output are one memory
  bool scaled = false;   // pre-multiplied sum: every rank's contribution is scaled once, before anything else
  bool operator==(const ScheduleKey&) const = default;
};

struct Schedule {
  ScheduleKey key;
  std::uint32_t chunks = 1;
  std::vector<RankSchedule> ranks;  // by rank
  bool operator==(const Schedule&) const = default;
};

}  // namespace rondo
