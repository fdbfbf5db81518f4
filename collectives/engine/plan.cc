#include "collectives/engine/plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/inputs.h"
#include "collectives/schedule/project.h"

namespace rondo {

bool OnlyGivesAway(const Plan& plan, BufferId buffer) {
  return std::all_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
    const bool writes = step.kind != StepKind::kSend && step.destination == buffer;
    const bool reads = step.kind != StepKind::kRecv && step.source == buffer;
    const bool as_it_is = step.kind == StepKind::kSend || (step.kind == StepKind::kCopy && !step.scale && !step.finish);
    return !writes && (!reads || as_it_is);
  });
}

std::vector<Rank> TakersOf(const Plan& plan, BufferId buffer) {
  std::vector<Rank> takers;
  for (const PlanStep& step : plan.steps)
    if (step.kind == StepKind::kSend && step.source == buffer && step.chunks.count > 0)
      takers.push_back(plan.queues[step.queue].peer);
  std::sort(takers.begin(), takers.end());
  takers.erase(std::unique(takers.begin(), takers.end()), takers.end());
  return takers;
}

Plan MakePlan(const ScheduleKey& key, std::uint32_t chunks, const RankSchedule& schedule) {
  Plan plan;
  plan.key = key;
  plan.chunks = chunks;
  plan.blocks = BlocksOf(key.collective, key.world_size);
  plan.input = Holds(key, schedule.rank, BufferId::kInput);
  plan.output = Holds(key, schedule.rank, BufferId::kOutput);
  plan.scratch = schedule.scratch;
  plan.chunks_per_block = chunks / plan.blocks;
  plan.has_plain_buffers = plan.output.stride == 1 && plan.scratch.size() <= 1;
  const auto scratch_range = [&](const ChunkRange& chunk_range) {
    const auto behind =
        std::upper_bound(plan.scratch.begin(), plan.scratch.end(), chunk_range.first,
                         [](std::uint32_t first, const ChunkRange& range) { return first < range.first; });
    return behind == plan.scratch.begin() ? 0 : static_cast<std::uint32_t>(behind - plan.scratch.begin() - 1);
  };
  plan.steps.reserve(schedule.steps.size());
  std::map<std::pair<Rank, bool>, std::uint32_t> queues;
  std::uint32_t run = 0;
  for (std::uint32_t index = 0; index < schedule.steps.size(); ++index) {
    const Step& step = schedule.steps[index];
    const bool local = IsLocal(step.kind);
    RONDO_CHECK(local || (step.peer >= 0 && step.peer < key.world_size), "step {} names peer {}", index, step.peer);
    const bool sending = step.kind == StepKind::kSend;
    run += sending ? 0 : 1;
    const auto [place, fresh] =
        queues.try_emplace({local ? kNoRank : step.peer, sending}, static_cast<std::uint32_t>(plan.queues.size()));
    if (fresh) plan.queues.push_back({local ? kNoRank : step.peer, sending, {}});
    plan.queues[place->second].steps.push_back(index);
    plan.steps.push_back({
        .kind = step.kind,
        .source = step.source,
        .destination = step.destination,
        .incoming_left = step.incoming_left,
        .scale = step.scale,
        .finish = step.finish,
        .transfer = step.transfer,
        .chunks = step.chunks,
        .block = step.chunks.first / plan.chunks_per_block,
        .scratch_range = scratch_range(step.chunks),
        .queue = place->second,
        .run = run,
        .first_dependency = static_cast<std::uint32_t>(plan.dependencies.size()),
        .dependencies = static_cast<std::uint32_t>(step.dependencies.size()),
    });
    plan.dependencies.insert(plan.dependencies.end(), step.dependencies.begin(), step.dependencies.end());
  }
  return plan;
}

const Plan* PlanCache::Knowing(Plan& plan, bool averages) const {
  if (!averages || plan.knows_inputs || !Reduces(plan.key.collective)) return &plan;
  plan.knows_inputs = true;
  const AlgorithmEntry* const algorithm = FindAlgorithm(plan.key.collective, plan.key.algorithm);
  const ReductionInputs inputs = FindInputs(*algorithm, plan.key, rank_);
  std::size_t local = 0;
  for (PlanStep& step : plan.steps) {
    if (step.kind == StepKind::kRecvReduce) {
      const ReductionInputs::Arriving& found = inputs.arriving.at(step.transfer);
      step.left_is_input = step.incoming_left ? found.incoming : found.own;
      step.right_is_input = step.incoming_left ? found.own : found.incoming;
    } else if (step.kind == StepKind::kReduce) {
      step.left_is_input = inputs.local[local++];
      step.right_is_input = true;
    }
  }
  RONDO_CHECK(local == inputs.local.size(), "{} local reductions, of {} it is known what they combine", local,
              inputs.local.size());
  return &plan;
}

Result<const Plan*> PlanCache::Get(const ScheduleKey& key, bool averages) {
  ++uses_;
  for (Entry& entry : entries_) {
    if (entry.plan->key == key) {
      entry.last_use = uses_;
      return Knowing(*entry.plan, averages);
    }
  }
  const AlgorithmEntry* algorithm = FindAlgorithm(key.collective, key.algorithm);
  if (algorithm == nullptr)
    return Fail(ErrorCode::kInvalidArgument, "algorithm {} does not support {}", Name(key.algorithm),
                Name(key.collective));
  auto plan =
      std::make_unique<Plan>(MakePlan(key, ChunksOf(*algorithm, WorldOf(key)), Project(*algorithm, key, rank_)));
  plan->in_slices = algorithm->traits.in_slices;
  plan->apart = !algorithm->traits.spans_blocks;
  if (entries_.size() >= limit_ && !entries_.empty()) {
    entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                    [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; }));
  }
  entries_.push_back({uses_, std::move(plan)});
  return Knowing(*entries_.back().plan, averages);
}

}  // namespace rondo
