#include "collectives/schedule/verify.h"

#include <algorithm>
#include <set>

#include "collectives/schedule/text.h"
#include "collectives/schedule/verify_parts.h"

namespace rondo {
namespace verify {

std::string Describe(const Schedule& schedule, Place place) {
  return fmt::format("rank {} step {} ({})", place.rank, place.step,
                     Print(schedule.ranks[static_cast<std::size_t>(place.rank)].steps[place.step]));
}

namespace {

// Whether `later` does to what `earlier` did what the dependency says.
bool IsTrue(const Step& earlier, const Step& later, DependencyKind kind) {
  const bool signal = Receives(earlier) && earlier.chunks.count == 0;
  if (signal) return kind == DependencyKind::kReadAfterWrite && Sends(later);
  if (!earlier.chunks.Overlaps(later.chunks)) return false;
  switch (kind) {
    case DependencyKind::kReadAfterWrite: return !Sends(earlier) && Reads(later, earlier.destination);
    case DependencyKind::kWriteAfterRead: return earlier.kind != StepKind::kRecv && Writes(later, earlier.source);
    case DependencyKind::kWriteAfterWrite: return !Sends(earlier) && Writes(later, earlier.destination);
  }
  return false;
}

std::string_view Denial(DependencyKind kind) {
  switch (kind) {
    case DependencyKind::kReadAfterWrite: return "reads nothing that it writes";
    case DependencyKind::kWriteAfterRead: return "overwrites nothing that it reads";
    case DependencyKind::kWriteAfterWrite: return "overwrites nothing that it writes";
  }
  return "in no known way";
}

Status CheckDependencies(const Schedule& schedule, Place place) {
  const std::vector<Step>& steps = schedule.ranks[static_cast<std::size_t>(place.rank)].steps;
  const Step& step = steps[place.step];
  const Dependency* previous = nullptr;
  for (const Dependency& dependency : step.dependencies) {
    if (dependency.step >= place.step) {
      return CounterExample("{} depends on step {}, which does not come before it", Describe(schedule, place),
                            dependency.step);
    }
    if (previous != nullptr && dependency.step <= previous->step) {
      return CounterExample("{}: dependencies are not sorted by step, or one step stands there twice",
                            Describe(schedule, place));
    }
    if (!IsTrue(steps[dependency.step], step, dependency.kind)) {
      return CounterExample("{} depends on {}, but {}", Describe(schedule, place),
                            Describe(schedule, {place.rank, dependency.step}), Denial(dependency.kind));
    }
    previous = &dependency;
  }
  return {};
}

Status CheckStep(const Schedule& schedule, Place place, ChunkRange window) {
  const ScheduleKey& key = schedule.key;
  const Step& step = schedule.ranks[static_cast<std::size_t>(place.rank)].steps[place.step];
  const auto refuse = [&](std::string_view why) { return CounterExample("{} {}", Describe(schedule, place), why); };
  if (step.kind != StepKind::kCopy) {
    if (step.peer < 0 || step.peer >= key.world_size) return refuse("names a peer that does not exist");
    if (step.peer == place.rank) return refuse("names its own rank as peer");
  }
  if (step.chunks.count > 0 &&
      (step.chunks.first < window.first || std::uint64_t{step.chunks.first} + step.chunks.count > window.end())) {
    return refuse("names chunks that do not exist");
  }
  if (key.collective == Collective::kBarrier) {
    if (step.chunks.count > 0 || (!Sends(step) && step.kind != StepKind::kRecv))
      return refuse("moves data in a barrier");
  }
  if (key.in_place && (Reads(step, BufferId::kInput) || Writes(step, BufferId::kInput))) {
    return refuse("names the input of an in-place collective, which is the output");
  }
  if (Writes(step, BufferId::kInput)) return refuse("writes the input");
  if (step.kind == StepKind::kCopy && !step.scale && step.source == step.destination)
    return refuse("copies onto itself");
  if (step.scale && (step.kind != StepKind::kCopy || !key.scaled))
    return refuse("scales where nothing is to be scaled");
  if (step.finish &&
      (!step.chunks.count || Sends(step) || step.kind == StepKind::kRecv || key.collective != Collective::kAllReduce)) {
    return refuse("finishes where nothing is computed");
  }
  if (step.incoming_left != (step.peer < place.rank) && step.kind == StepKind::kRecvReduce) {
    return refuse("combines with the operands on the wrong sides: the lower rank's is the left one");
  }
  return CheckDependencies(schedule, place);
}

void Measure(const Schedule& schedule, Proof& proof) {
  for (const RankSchedule& rank : schedule.ranks) {
    std::uint32_t sent = 0, received = 0;
    std::uint64_t chunks_sent = 0, chunks_received = 0;
    std::set<Rank> peers;
    for (const Step& step : rank.steps) {
      if (Sends(step)) ++sent, chunks_sent += step.chunks.count;
      if (Receives(step)) ++received, chunks_received += step.chunks.count;
      if (step.kind != StepKind::kCopy) peers.insert(step.peer);
      proof.uses_scratch |= Reads(step, BufferId::kScratch) || Writes(step, BufferId::kScratch);
    }
    proof.transfers += sent;
    proof.max_transfers_sent = std::max(proof.max_transfers_sent, sent);
    proof.max_transfers_received = std::max(proof.max_transfers_received, received);
    proof.max_chunks_sent = std::max(proof.max_chunks_sent, chunks_sent);
    proof.max_chunks_received = std::max(proof.max_chunks_received, chunks_received);
    proof.max_peers = std::max(proof.max_peers, static_cast<std::uint32_t>(peers.size()));
  }
}

// How many rounds the events take where each rank has one port out and one port in, and an event waits for what its
// steps depend on.
std::uint32_t CountRounds(const Schedule& schedule, const std::vector<Event>& ordered) {
  struct Rounds {
    std::vector<std::uint32_t> done_in;  // by step
    std::uint32_t sending = 0, receiving = 0;
  };
  std::vector<Rounds> ranks(schedule.ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].done_in.resize(schedule.ranks[r].steps.size(), 0);
  const auto ready = [&](Place place) {
    std::uint32_t round = 0;
    const auto rank = static_cast<std::size_t>(place.rank);
    for (const Dependency& dependency : schedule.ranks[rank].steps[place.step].dependencies) {
      round = std::max(round, ranks[rank].done_in[dependency.step]);
    }
    return round;
  };
  std::uint32_t rounds = 0;
  for (const Event& event : ordered) {
    std::uint32_t round = std::max(ready(event.first), ready(event.second));
    Rounds& sender = ranks[static_cast<std::size_t>(event.first.rank)];
    Rounds& receiver = ranks[static_cast<std::size_t>(event.second.rank)];
    if (event.is_transfer) {
      round = std::max({round, sender.sending, receiver.receiving}) + 1;
      sender.sending = receiver.receiving = round;
    }
    sender.done_in[event.first.step] = receiver.done_in[event.second.step] = round;
    rounds = std::max(rounds, round);
  }
  return rounds;
}

}  // namespace

Status CheckSteps(const Schedule& schedule, ChunkRange window) {
  const ScheduleKey& key = schedule.key;
  if (key.world_size < 1 || schedule.ranks.size() != static_cast<std::size_t>(key.world_size)) {
    return CounterExample("{} ranks' steps in a world of {}", schedule.ranks.size(), key.world_size);
  }
  if (schedule.chunks == 0 || window.count == 0) return CounterExample("there are no chunks");
  if (key.root < 0 || key.root >= key.world_size)
    return CounterExample("root {} of {} ranks", key.root, key.world_size);
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const auto rank = static_cast<Rank>(r);
    if (schedule.ranks[r].rank != rank) {
      return CounterExample("rank {} stands where rank {} should", schedule.ranks[r].rank, rank);
    }
    for (std::uint32_t s = 0; s < schedule.ranks[r].steps.size(); ++s)
      RONDO_TRY(CheckStep(schedule, {rank, s}, window));
  }
  return {};
}

}  // namespace verify

Result<Proof> Verify(const Schedule& schedule, std::optional<ChunkRange> window) {
  const ChunkRange chunks = window.value_or(ChunkRange{0, schedule.chunks});
  RONDO_TRY(verify::CheckSteps(schedule, chunks));
  RONDO_ASSIGN(auto events, verify::PairSteps(schedule));
  RONDO_ASSIGN(const auto ordered, verify::OrderEvents(schedule, std::move(events)));
  for (const RankSchedule& rank : schedule.ranks) RONDO_TRY(verify::CheckRaces(schedule, rank.rank, chunks));
  Proof proof;
  if (schedule.key.collective == Collective::kBarrier) {
    RONDO_TRY(verify::CheckBarrier(schedule, ordered));
  } else {
    RONDO_TRY(verify::CheckValues(schedule, ordered, chunks, proof));
  }
  verify::Measure(schedule, proof);
  proof.rounds = verify::CountRounds(schedule, ordered);
  return proof;
}

}  // namespace rondo
