// A plan: one rank's schedule in the form that the engine runs. A plan works for every count, so it is made once for
// each ScheduleKey and kept.
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
  // the left operand is an input (schedule/inputs.h); set only for recv_reduce and reduce in plans of averages
  bool left_is_input = false;
  bool right_is_input = false;  // the right operand is an input
  std::uint32_t transfer = 0;
  ChunkRange chunks;
  std::uint32_t block;          // block of the first chunk
  std::uint32_t scratch_range;  // index into Plan::scratch, if source or destination is scratch
  std::uint32_t queue;          // index into Plan::queues
  std::uint32_t run;            // number of the run to which a send belongs (step.h)
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
  std::uint32_t chunks = 1;  // number of chunks of all blocks together
  std::uint32_t blocks = 1;
  std::uint32_t chunks_per_block = 1;
  BlockSet input, output;           // blocks in the input and output buffers
  std::vector<ChunkRange> scratch;  // chunks in scratch, packed in this order
  // The chunks in each buffer have consecutive numbers, so address minus position (grid.h) is constant per buffer.
  bool has_plain_buffers = true;
  bool in_slices = false;     // a large vector may run in slices (slices.h)
  bool knows_inputs = false;  // left_is_input and right_is_input of the steps are filled in
  bool apart = false;  // no transfer has chunks of two blocks, so each block may be cut into shares (railed_engine.h)
  std::vector<PlanStep> steps;
  std::vector<Dependency> dependencies;
  std::vector<PlanQueue> queues;
};

// Whether no step writes `buffer`, and steps read it only to send or copy its bytes unchanged.
bool OnlyGivesAway(const Plan& plan, BufferId buffer);
// The peers to which steps send bytes of `buffer`, sorted.
std::vector<Rank> TakersOf(const Plan& plan, BufferId buffer);

// Makes a plan of `schedule`. REQUIRES: the steps name ranks of the key's world.
Plan MakePlan(const ScheduleKey& key, std::uint32_t chunks, const RankSchedule& schedule);

// The plans of one rank, at most `limit`. A new plan replaces the least recently used one. The `hosts` of all keys must
// outlive the cache. Thread rule: one thread at a time.
class PlanCache {
 public:
  PlanCache(Rank rank, std::size_t limit) : rank_(rank), limit_(limit) {}

  // The returned plan lives until the next call. kInvalidArgument: the algorithm does not implement the collective.
  // With `averages` the plan also marks the operands that are inputs, because averages need this. Marking doubles the
  // time to make a plan.
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
