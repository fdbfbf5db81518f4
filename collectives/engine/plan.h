// A plan: one rank's schedule laid out for the engine. Parametric in the count; made once per ScheduleKey and kept.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/schedule/step.h"

namespace rondo {

struct PlanStep {
  StepKind kind;
  BufferId source;
  BufferId destination;
  bool incoming_left;
  bool scale;
  bool finish;
  std::uint32_t transfer;
  ChunkRange chunks;
  std::uint32_t queue;  // index into Plan::queues
  std::uint32_t first_dependency;
  std::uint32_t dependencies;
};

// Steps that run strictly one after the other: one direction of one lane, or this rank's local copies.
struct PlanQueue {
  Rank peer = kNoRank;  // kNoRank: local copies
  bool sending = false;
  std::vector<std::uint32_t> steps;
};

struct Plan {
  ScheduleKey key;
  std::uint32_t chunks = 1;
  bool needs_scratch = false;
  std::vector<PlanStep> steps;
  std::vector<Dependency> dependencies;
  std::vector<PlanQueue> queues;
};

// Lays `schedule` out. REQUIRES: its steps name ranks of key's world.
Plan MakePlan(const ScheduleKey& key, std::uint32_t chunks, const RankSchedule& schedule);

// The plans of one rank, at most `limit`; the one unused for longest makes room. Thread rule: one thread at a time.
class PlanCache {
 public:
  PlanCache(Rank rank, std::size_t limit) : rank_(rank), limit_(limit) {}

  // Lives until the next call. kInvalidArgument where the algorithm does not serve the collective.
  Result<const Plan*> Get(const ScheduleKey& key);

 private:
  struct Entry {
    std::uint64_t last_use = 0;
    std::unique_ptr<Plan> plan;
  };
  Rank rank_;
  std::size_t limit_;
  std::uint64_t uses_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace rondo
