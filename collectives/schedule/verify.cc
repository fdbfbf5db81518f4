#include "collectives/schedule/verify.h"

#include <algorithm>
#include <set>

#include "collectives/schedule/layout.h"
#include "collectives/schedule/text.h"
#include "collectives/schedule/verify_parts.h"

namespace rondo {
namespace verify {

std::string Describe(const Schedule& schedule, Place place) {
  return fmt::format("rank {} step {} ({})", place.rank, place.step,
                     Print(schedule.ranks[static_cast<std::size_t>(place.rank)].steps[place.step]));
}

namespace {

bool IsSignal(const Step& step) { return Receives(step) && step.chunks.count == 0; }

// Whether `later` really has a dependency of this kind on `earlier`.
bool IsTrue(const Step& earlier, const Step& later, DependencyKind kind) {
  const bool signal = IsSignal(earlier);
  // A signal carries no bytes, only the fact that it arrived. Sends and later signals may depend on it.
  if (signal) return kind == DependencyKind::kReadAfterWrite && (Sends(later) || IsSignal(later));
  if (!earlier.chunks.Overlaps(later.chunks)) return false;
  switch (kind) {
    case DependencyKind::kReadAfterWrite: return !Sends(earlier) && Reads(later, earlier.destination);
    case DependencyKind::kWriteAfterRead: return Writes(later, later.destination) && Reads(earlier, later.destination);
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
      return CounterExample("{}: dependencies are not sorted by step, or name one step twice",
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

// Whether the rank's buffer holds all these chunks contiguously.
bool HasRoom(const Schedule& schedule, Rank rank, BufferId buffer, ChunkRange chunks) {
  if (buffer == BufferId::kScratch) {
    const std::vector<ChunkRange>& scratch = schedule.ranks[static_cast<std::size_t>(rank)].scratch;
    return std::any_of(scratch.begin(), scratch.end(), [&](const ChunkRange& range) {
      return range.first <= chunks.first && chunks.end() <= range.end();
    });
  }
  const BlockSet held = Holds(schedule.key, rank, buffer);
  const std::uint32_t per_block = schedule.chunks / BlocksOf(schedule.key.collective, schedule.key.world_size);
  const std::uint32_t first = chunks.first / per_block;
  const std::uint32_t last = (chunks.end() - 1) / per_block;
  // Blocks with consecutive numbers are adjacent in the buffer, unless the buffer's set of blocks has gaps.
  return held.Contains(first) && held.Contains(last) && (first == last || held.stride == 1);
}

Status CheckStep(const Schedule& schedule, Place place, ChunkRange window) {
  const ScheduleKey& key = schedule.key;
  const Step& step = schedule.ranks[static_cast<std::size_t>(place.rank)].steps[place.step];
  const auto refuse = [&](std::string_view why) { return CounterExample("{} {}", Describe(schedule, place), why); };
  if (!IsLocal(step.kind)) {
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
  if (InPlaceAt(key, place.rank) && (Reads(step, BufferId::kInput) || Writes(step, BufferId::kInput))) {
    return refuse("names the input of an in-place collective, which is the output");
  }
  if (Writes(step, BufferId::kInput)) return refuse("writes the input");
  for (const BufferId buffer : {BufferId::kInput, BufferId::kOutput, BufferId::kScratch}) {
    if ((Reads(step, buffer) || Writes(step, buffer)) && !HasRoom(schedule, place.rank, buffer, step.chunks)) {
      return refuse("names chunks that are not in that buffer, or are not consecutive there");
    }
  }
  if (step.kind == StepKind::kCopy && !step.scale && step.source == step.destination)
    return refuse("copies onto itself");
  if (step.kind == StepKind::kReduce && (step.chunks.count == 0 || step.source == step.destination))
    return refuse("combines nothing, or a buffer with itself");
  if (step.scale && (step.kind != StepKind::kCopy || !key.scaled))
    return refuse("scales where nothing is to be scaled");
  if (step.finish && (!step.chunks.count || Sends(step) || step.kind == StepKind::kRecv || !Reduces(key.collective))) {
    return refuse("finishes where nothing is computed");
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
      if (!IsLocal(step.kind)) peers.insert(step.peer);
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

// The number of rounds that the events take in the one-port model: each rank has one port for sending and one for
// receiving. Each event waits for the dependencies of its steps.
std::uint32_t CountRounds(const Schedule& schedule, const std::vector<Event>& ordered) {
  struct Port {
    std::uint32_t round = 0;     // the round of the latest message through the port
    Rank peer = kNoRank;         // the peer of that message
    std::uint32_t transfer = 0;  // the number of that message's last transfer
  };
  struct Rounds {
    std::vector<std::uint32_t> done_in;  // for each step: the round in which it is done
    Port out, in;
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
      const std::uint32_t transfer =
          schedule.ranks[static_cast<std::size_t>(event.first.rank)].steps[event.first.step].transfer;
      const bool goes_on = sender.out.peer == event.second.rank && receiver.in.peer == event.first.rank &&
                           sender.out.transfer + 1 == transfer && receiver.in.transfer + 1 == transfer &&
                           round < sender.out.round;
      round = goes_on ? sender.out.round : std::max({round, sender.out.round, receiver.in.round}) + 1;
      sender.out = {round, event.second.rank, transfer};
      receiver.in = {round, event.first.rank, transfer};
    }
    sender.done_in[event.first.step] = receiver.done_in[event.second.step] = round;
    rounds = std::max(rounds, round);
  }
  return rounds;
}

// Checks that the ranges are sorted, not adjacent, and within the window, and that some step writes each of their
// chunks.
Status CheckScratch(const RankSchedule& rank, ChunkRange window) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < rank.scratch.size(); ++i) {
    const ChunkRange range = rank.scratch[i];
    const bool in_window = range.first >= window.first && std::uint64_t{range.first} + range.count <= window.end();
    if (range.count == 0 || !in_window || (i > 0 && range.first <= end)) {
      return CounterExample(
          "rank {} keeps chunks [{}, {}) in scratch, which are none, do not exist, or are not "
          "after and apart from those before them",
          rank.rank, range.first, range.end());
    }
    end = range.end();
  }
  std::vector<bool> written(window.count, false);
  for (const Step& step : rank.steps) {
    if (!Writes(step, BufferId::kScratch)) continue;
    for (std::uint32_t c = step.chunks.first; c < step.chunks.end(); ++c) written[c - window.first] = true;
  }
  for (const ChunkRange& range : rank.scratch) {
    for (std::uint32_t c = range.first; c < range.end(); ++c) {
      if (!written[c - window.first])
        return CounterExample("rank {} keeps room in scratch for chunk {}, which no step puts there", rank.rank, c);
    }
  }
  return {};
}

}  // namespace

Status CheckSteps(const Schedule& schedule, ChunkRange window) {
  const ScheduleKey& key = schedule.key;
  if (key.world_size < 1 || schedule.ranks.size() != static_cast<std::size_t>(key.world_size)) {
    return CounterExample("there are steps of {} ranks in a world of {}", schedule.ranks.size(), key.world_size);
  }
  if (schedule.chunks == 0 || window.count == 0) return CounterExample("there are no chunks");
  if (key.root < 0 || key.root >= key.world_size)
    return CounterExample("root {} of {} ranks", key.root, key.world_size);
  if (key.collective == Collective::kAllToAll && key.world_size > kMaxPairedWorld)
    return CounterExample("{} ranks have more pairs than there are chunks", key.world_size);
  if (schedule.chunks % BlocksOf(key.collective, key.world_size) != 0) {
    return CounterExample("{} chunks cannot be divided equally into {} blocks", schedule.chunks,
                          BlocksOf(key.collective, key.world_size));
  }
  if (key.in_place && key.collective == Collective::kAllToAll) return CounterExample("all_to_all has no in-place form");
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const auto rank = static_cast<Rank>(r);
    if (schedule.ranks[r].rank != rank) {
      return CounterExample("found rank {}, expected rank {}", schedule.ranks[r].rank, rank);
    }
    for (std::uint32_t s = 0; s < schedule.ranks[r].steps.size(); ++s)
      RONDO_TRY(CheckStep(schedule, {rank, s}, window));
    RONDO_TRY(CheckScratch(schedule.ranks[r], window));
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
