// A plan: one rank's schedule laid out for the engine. Parametric in the count; made once per ScheduleKey and kept.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/schedule/layout.h"
#include "collectives/schedule/step.h"

namespace rondo {

struct PlanStep {
  StepKind kind;
  BufferId source;
  BufferId destination;
  bool incoming_left;
  bool scale;
  bool finish;
  bool left_is_input = false;   // of recv_reduce and reduce, in plans of averages: schedule/inputs.h
  bool right_is_input = false;  // likewise
  std::uint32_t transfer = 0;
  ChunkRange chunks;
  std::uint32_t block;          // of the first chunk
  std::uint32_t scratch_range;  // index into Plan::scratch, where a side of the step lies in scratch
  std::uint32_t queue;          // index into Plan::queues
  std::uint32_t run;            // of sends: alike for those of one run (step.h)
  std::uint32_t first_dependency;
  std::uint32_t dependencies;
};

// Steps that run strictly one after the other: one direction of one lane, or this rank's copies and local reduces.
struct PlanQueue {
  Rank peer = kNoRank;  // kNoRank: local steps
  bool sending = false;
  std::vector<std::uint32_t> steps;
};

struct Plan {
  ScheduleKey key;
  std::uint32_t chunks = 1;  // of the whole virtual vector
  std::uint32_t blocks = 1;
  std::uint32_t chunks_per_block = 1;
  BlockSet input, output;           // what those buffers hold
  std::vector<ChunkRange> scratch;  // what scratch holds, packed
  // Each buffer is one piece of the virtual vector, so that position and address differ by one number per buffer.
  bool has_plain_buffers = true;
  bool in_slices = false;     // a large vector may be worked off in slices (slices.h)
  bool knows_inputs = false;  // its steps say which of their operands are
  bool apart = false;         // no transfer spans blocks, so that each block may be cut into shares (railed_engine.h)
  std::vector<PlanStep> steps;
  std::vector<Dependency> dependencies;
  std::vector<PlanQueue> queues;
};

// Whether nobody writes that buffer, and all that is read of it is sent or copied as it is.
bool OnlyGivesAway(const Plan& plan, BufferId buffer);
// To whom.
std::vector<Rank> TakersOf(const Plan& plan, BufferId buffer);

// Lays `schedule` out. REQUIRES: its steps name ranks of key's world.
Plan MakePlan(const ScheduleKey& key, std::uint32_t chunks, const RankSchedule& schedule);

// The plans of one rank, at most `limit`; the one unused for longest makes room. Keys' hosts outlive the cache. Thread
// rule: one thread at a time.
class PlanCache {
 public:
  PlanCache(Rank rank, std::size_t limit) : rank_(rank), limit_(limit) {}

  // Lives until the next call. kInvalidArgument where the algorithm does not serve the collective. With
  // `averages` the plan also marks which operands are inputs, as an average needs; that doubles the time to make it.
  Result<const Plan*> Get(const ScheduleKey& key, bool averages = true);

 private:
  struct Entry {
    std::uint64_t last_use = 0;
    std::unique_ptr<Plan> plan;
  };
  const Plan* Knowing(Plan& plan, bool averages) const;
  Rank rank_;
  std::size_t limit_;
  std::uint64_t uses_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace rondo
