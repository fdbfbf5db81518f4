#include "collectives/schedule/mutate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

struct Site {
  std::size_t rank;
  std::uint32_t step;
};

Step& At(Schedule& schedule, Site site) { return schedule.ranks[site.rank].steps[site.step]; }
std::vector<Step>& StepsOf(Schedule& schedule, Site site) { return schedule.ranks[site.rank].steps; }

bool IsReceive(const Step& step) { return step.kind == StepKind::kRecv || step.kind == StepKind::kRecvReduce; }

// Chooses one of the steps that `wanted` accepts, all with the same probability.
template <typename Wanted>
std::optional<Site> Pick(Schedule& schedule, Random& random, Wanted wanted) {
  std::vector<Site> sites;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    for (std::uint32_t s = 0; s < schedule.ranks[r].steps.size(); ++s) {
      if (wanted(schedule.ranks[r].steps[s])) sites.push_back({r, s});
    }
  }
  if (sites.empty()) return std::nullopt;
  return sites[random.Below(sites.size())];
}

// The other end of a transfer.
Site OtherEnd(const Schedule& schedule, const Step& step, bool is_send) {
  const auto peer = static_cast<std::size_t>(step.peer);
  const std::vector<Step>& steps = schedule.ranks[peer].steps;
  for (std::uint32_t s = 0; s < steps.size(); ++s) {
    const bool other_direction = is_send ? IsReceive(steps[s]) : steps[s].kind == StepKind::kSend;
    if (other_direction && steps[s].transfer == step.transfer) return {peer, s};
  }
  return {peer, 0};  // never happens in a proved schedule
}

// Removes a step. Renumbers the later steps and removes their dependencies on it.
void Erase(std::vector<Step>& steps, std::uint32_t index) {
  steps.erase(steps.begin() + index);
  for (std::size_t s = index; s < steps.size(); ++s) {
    std::erase_if(steps[s].dependencies, [&](const Dependency& dependency) { return dependency.step == index; });
    for (Dependency& dependency : steps[s].dependencies) dependency.step -= dependency.step > index ? 1 : 0;
  }
}

// Inserts a copy of a step directly behind it and renumbers the later steps.
void Double(std::vector<Step>& steps, std::uint32_t index) {
  Step again = steps[index];
  steps.insert(steps.begin() + index + 1, std::move(again));
  for (std::size_t s = index + 2; s < steps.size(); ++s) {
    for (Dependency& dependency : steps[s].dependencies) dependency.step += dependency.step > index ? 1 : 0;
  }
}

const auto kAnySend = [](const Step& step) { return step.kind == StepKind::kSend; };
const auto kAnyReceive = [](const Step& step) { return IsReceive(step); };
const auto kAnyReduce = [](const Step& step) { return step.kind == StepKind::kRecvReduce; };
const auto kLocalReduce = [](const Step& step) { return step.kind == StepKind::kReduce; };
const auto kSendOfData = [](const Step& step) { return step.kind == StepKind::kSend && step.chunks.count > 0; };
const auto kReceiveOfData = [](const Step& step) { return IsReceive(step) && step.chunks.count > 0; };
const auto kDependent = [](const Step& step) { return !step.dependencies.empty(); };

// ---- steps ----

bool DropSend(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnySend);
  if (site) Erase(StepsOf(schedule, *site), site->step);
  return site.has_value();
}

bool DropReceive(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnyReceive);
  if (site) Erase(StepsOf(schedule, *site), site->step);
  return site.has_value();
}

bool DropTransfer(Schedule& schedule, Random& random) {
  // Outside barriers a signal only paces the transfers, so the result would be right without it.
  const bool barrier = schedule.key.collective == Collective::kBarrier;
  const auto site =
      Pick(schedule, random, [&](const Step& step) { return kAnySend(step) && (barrier || step.chunks.count > 0); });
  if (!site) return false;
  const Site receive = OtherEnd(schedule, At(schedule, *site), true);
  Erase(StepsOf(schedule, receive), receive.step);
  Erase(StepsOf(schedule, *site), site->step);
  return true;
}

bool DropCopy(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, [](const Step& step) { return step.kind == StepKind::kCopy; });
  if (site) Erase(StepsOf(schedule, *site), site->step);
  return site.has_value();
}

bool DoubleSend(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnySend);
  if (site) Double(StepsOf(schedule, *site), site->step);
  return site.has_value();
}

bool DoubleReceive(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnyReceive);
  if (site) Double(StepsOf(schedule, *site), site->step);
  return site.has_value();
}

// Sends and combines one contribution twice, in a correct order. So only the result is wrong.
bool DoubleContribution(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnyReduce);
  if (!site) return false;
  const Site send = OtherEnd(schedule, At(schedule, *site), false);
  std::uint32_t fresh_number = 0;
  for (const RankSchedule& rank : schedule.ranks) {
    for (const Step& step : rank.steps) fresh_number = std::max(fresh_number, step.transfer + 1);
  }
  Double(StepsOf(schedule, *site), site->step);
  Step& again = At(schedule, {site->rank, site->step + 1});
  again.source = again.destination;
  again.transfer = fresh_number;
  again.dependencies = {{site->step, DependencyKind::kReadAfterWrite}};
  At(schedule, *site).finish = false;
  // Dependencies on the original step become dependencies on its copy.
  std::vector<Step>& steps = StepsOf(schedule, *site);
  for (std::size_t s = site->step + 2; s < steps.size(); ++s) {
    for (Dependency& dependency : steps[s].dependencies) dependency.step += dependency.step == site->step ? 1 : 0;
  }
  Double(StepsOf(schedule, send), send.step);
  At(schedule, {send.rank, send.step + 1}).transfer = fresh_number;
  return true;
}

// Swaps two sends of one lane, at the sender only.
bool SwapSends(Schedule& schedule, Random& random) {
  std::vector<std::pair<Site, Site>> pairs;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const std::vector<Step>& steps = schedule.ranks[r].steps;
    for (std::uint32_t a = 0; a < steps.size(); ++a) {
      for (std::uint32_t b = a + 1; b < steps.size(); ++b) {
        if (kAnySend(steps[a]) && kAnySend(steps[b]) && steps[a].peer == steps[b].peer)
          pairs.push_back({{r, a}, {r, b}});
      }
    }
  }
  if (pairs.empty()) return false;
  const auto [a, b] = pairs[random.Below(pairs.size())];
  std::swap(At(schedule, a).transfer, At(schedule, b).transfer);
  std::swap(At(schedule, a).chunks, At(schedule, b).chunks);
  std::swap(At(schedule, a).source, At(schedule, b).source);
  return true;
}

// Moves a step before one that it depends on.
bool MoveBeforeDependency(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kDependent);
  if (!site) return false;
  std::swap(At(schedule, *site), At(schedule, {site->rank, At(schedule, *site).dependencies.front().step}));
  return true;
}

bool WrongPeer(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnySend);
  if (!site || schedule.key.world_size < 3) return false;
  Step& send = At(schedule, *site);
  do {
    send.peer = (send.peer + 1) % schedule.key.world_size;
  } while (send.peer == static_cast<Rank>(site->rank));
  return true;
}

bool PeerOutsideWorld(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnyReceive);
  if (site) At(schedule, *site).peer = schedule.key.world_size;
  return site.has_value();
}

bool SendToSelf(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnySend);
  if (site) At(schedule, *site).peer = static_cast<Rank>(site->rank);
  return site.has_value();
}

bool SharedTransferNumber(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnySend);
  const auto other = Pick(schedule, random, kAnySend);
  if (!site || At(schedule, *site).transfer == At(schedule, *other).transfer) return false;
  const Site receive = OtherEnd(schedule, At(schedule, *site), true);
  At(schedule, *site).transfer = At(schedule, receive).transfer = At(schedule, *other).transfer;
  return true;
}

// ---- chunks and buffers ----

bool WrongChunkAtOneEnd(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kSendOfData);
  if (!site) return false;
  ++At(schedule, *site).chunks.first;  // the next chunk might not exist; that is wrong, too
  return true;
}

bool WrongChunkAtBothEnds(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kSendOfData);
  if (!site) return false;
  const Site receive = OtherEnd(schedule, At(schedule, *site), true);
  ChunkRange chunks = At(schedule, *site).chunks;
  chunks.first = chunks.end() < schedule.chunks ? chunks.first + 1 : 0;
  if (chunks == At(schedule, *site).chunks) return false;
  At(schedule, *site).chunks = At(schedule, receive).chunks = chunks;
  return true;
}

bool WrongSourceOfSend(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kSendOfData);
  if (!site) return false;
  BufferId& source = At(schedule, *site).source;
  source = source == BufferId::kOutput ? BufferId::kScratch : BufferId::kOutput;
  return true;
}

bool WrongOwnOperand(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnyReduce);
  if (!site) return false;
  BufferId& source = At(schedule, *site).source;
  source = source == BufferId::kOutput ? BufferId::kScratch : BufferId::kOutput;
  return true;
}

bool WrongDestination(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kReceiveOfData);
  if (!site) return false;
  BufferId& destination = At(schedule, *site).destination;
  destination = destination == BufferId::kOutput ? BufferId::kScratch : BufferId::kOutput;
  return true;
}

bool WriteInput(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kReceiveOfData);
  if (site) At(schedule, *site).destination = BufferId::kInput;
  return site.has_value();
}

// ---- dependencies ----

// The dependencies without which a schedule is wrong. Dependencies on signals usually are not among them: in a pairwise
// exchange signals only pace the transfers, and a barrier may deliver the same information twice. But a dissemination
// barrier needs every signal if the number of ranks is a power of two.
std::vector<std::pair<Site, std::size_t>> NeededDependencies(const Schedule& schedule) {
  const bool news_needed = schedule.key.algorithm == Algorithm::kDissemination &&
                           std::has_single_bit(static_cast<unsigned>(schedule.key.world_size));
  std::vector<std::pair<Site, std::size_t>> needed;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const std::vector<Step>& steps = schedule.ranks[r].steps;
    for (std::uint32_t s = 0; s < steps.size(); ++s) {
      for (std::size_t d = 0; d < steps[s].dependencies.size(); ++d) {
        const bool on_signal = steps[steps[s].dependencies[d].step].chunks.count == 0;
        if (!on_signal || (news_needed && kAnySend(steps[s]))) needed.push_back({{r, s}, d});
      }
    }
  }
  return needed;
}

bool DropDependency(Schedule& schedule, Random& random) {
  const auto needed = NeededDependencies(schedule);
  if (needed.empty()) return false;
  const auto [site, dependency] = needed[random.Below(needed.size())];
  std::vector<Dependency>& dependencies = At(schedule, site).dependencies;
  dependencies.erase(dependencies.begin() + static_cast<std::ptrdiff_t>(dependency));
  return true;
}

// Makes a dependency name the step before the right one.
bool ShiftDependency(Schedule& schedule, Random& random) {
  auto needed = NeededDependencies(schedule);
  std::erase_if(needed, [&](const auto& place) {
    return place.second != 0 || At(schedule, place.first).dependencies.front().step == 0;
  });
  if (needed.empty()) return false;
  --At(schedule, needed[random.Below(needed.size())].first).dependencies.front().step;
  return true;
}

bool DependOnSelf(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kDependent);
  if (site) At(schedule, *site).dependencies.back().step = site->step;
  return site.has_value();
}

// Lets a step overwrite data as soon as the lane has accepted it from a send, instead of waiting until the send has
// released it.
bool IgnoreRelease(Schedule& schedule, Random& random) {
  std::vector<std::pair<Site, std::size_t>> places;
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const std::vector<Step>& steps = schedule.ranks[r].steps;
    for (std::uint32_t s = 0; s < steps.size(); ++s) {
      for (std::size_t d = 0; d < steps[s].dependencies.size(); ++d) {
        if (kAnySend(steps[steps[s].dependencies[d].step])) places.push_back({{r, s}, d});
      }
    }
  }
  if (places.empty()) return false;
  const auto [site, dependency] = places[random.Below(places.size())];
  At(schedule, site).dependencies[dependency].kind =
      random.Chance(0.5) ? DependencyKind::kReadAfterWrite : DependencyKind::kWriteAfterWrite;
  return true;
}

bool WrongKindForSend(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, [](const Step& step) { return kAnySend(step) && kDependent(step); });
  if (!site) return false;
  At(schedule, *site).dependencies.front().kind =
      random.Chance(0.5) ? DependencyKind::kWriteAfterRead : DependencyKind::kWriteAfterWrite;
  return true;
}

// Makes both ranks of an exchange combine into the buffer from which they send. Each rank then waits until the other
// has received its data, but neither receives yet.
bool ExchangeInOneBuffer(Schedule& schedule, Random& random) {
  const auto exchanges = [&](Site site) -> std::optional<std::uint32_t> {
    const std::vector<Step>& steps = schedule.ranks[site.rank].steps;
    const Step& combine = steps[site.step];
    for (std::uint32_t s = 0; s < site.step; ++s) {
      if (kAnySend(steps[s]) && steps[s].peer == combine.peer && steps[s].source == combine.source &&
          steps[s].chunks == combine.chunks && combine.source != combine.destination) {
        return s;
      }
    }
    return std::nullopt;
  };
  const auto site = Pick(schedule, random, kAnyReduce);
  if (!site) return false;
  const Site other_send = OtherEnd(schedule, At(schedule, *site), false);
  const auto own_send = exchanges(*site);
  if (!own_send) return false;
  const Site other = OtherEnd(schedule, StepsOf(schedule, *site)[*own_send], true);
  if (other.step >= StepsOf(schedule, other).size() || !exchanges(other)) return false;
  const auto wait = [](Step& combine, std::uint32_t send) {
    combine.destination = combine.source;
    std::vector<Dependency>& dependencies = combine.dependencies;
    dependencies.push_back({send, DependencyKind::kWriteAfterRead});
    std::sort(dependencies.begin(), dependencies.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  };
  wait(At(schedule, *site), *own_send);
  wait(At(schedule, other), other_send.step);
  return true;
}

// ---- layout and scratch ----

bool MistakeRoot(Schedule& schedule, Random& random) {
  if (!HasRoot(schedule.key.collective) || schedule.key.world_size < 2) return false;
  const auto others = static_cast<std::uint64_t>(schedule.key.world_size - 1);
  const Rank away = static_cast<Rank>(random.Between(1, others));
  schedule.key.root = (schedule.key.root + away) % schedule.key.world_size;
  return true;
}

bool MistakePlace(Schedule& schedule, Random& /*random*/) {
  if (!HasInPlace(schedule.key.collective)) return false;
  schedule.key.in_place = !schedule.key.in_place;
  return true;
}

// Chooses a rank that uses scratch.
RankSchedule* PickScratch(Schedule& schedule, Random& random) {
  std::vector<RankSchedule*> ranks;
  for (RankSchedule& rank : schedule.ranks) {
    if (!rank.scratch.empty()) ranks.push_back(&rank);
  }
  return ranks.empty() ? nullptr : ranks[random.Below(ranks.size())];
}

bool KeepMoreScratch(Schedule& schedule, Random& random) {
  RankSchedule* rank = PickScratch(schedule, random);
  if (rank == nullptr) return false;
  // may touch or overlap the next range, or exceed the last chunk
  ++rank->scratch[random.Below(rank->scratch.size())].count;
  return true;
}

bool KeepLessScratch(Schedule& schedule, Random& random) {
  RankSchedule* rank = PickScratch(schedule, random);
  if (rank == nullptr) return false;
  ChunkRange& range = rank->scratch[random.Below(rank->scratch.size())];
  range.first += random.Chance(0.5) ? 1 : 0;
  --range.count;
  return true;
}

bool ForgetScratch(Schedule& schedule, Random& random) {
  RankSchedule* rank = PickScratch(schedule, random);
  if (rank == nullptr) return false;
  rank->scratch.erase(rank->scratch.begin() + static_cast<std::ptrdiff_t>(random.Below(rank->scratch.size())));
  return true;
}

bool UnsortScratch(Schedule& schedule, Random& random) {
  RankSchedule* rank = PickScratch(schedule, random);
  if (rank == nullptr || rank->scratch.size() < 2) return false;
  std::swap(rank->scratch.front(), rank->scratch.back());
  return true;
}

// ---- arithmetic ----

bool DropLocalReduce(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kLocalReduce);
  if (site) Erase(StepsOf(schedule, *site), site->step);
  return site.has_value();
}

bool SwapLocalOperands(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kLocalReduce);
  if (site) At(schedule, *site).incoming_left = !At(schedule, *site).incoming_left;
  return site.has_value();
}

bool ReduceIntoOtherOperand(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kLocalReduce);
  if (site) std::swap(At(schedule, *site).source, At(schedule, *site).destination);
  return site.has_value();
}

bool CopyInsteadOfLocalReduce(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kLocalReduce);
  if (!site) return false;
  Step& step = At(schedule, *site);
  step.kind = StepKind::kCopy;
  step.incoming_left = false;
  step.finish = false;
  return true;
}

bool SwapOperands(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, kAnyReduce);
  if (!site) return false;
  At(schedule, *site).incoming_left = !At(schedule, *site).incoming_left;
  return true;
}

bool CopyInsteadOfReduce(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, [](const Step& step) { return kAnyReduce(step) && !step.finish; });
  if (!site) return false;
  Step& step = At(schedule, *site);
  step.kind = StepKind::kRecv;
  step.source = BufferId::kInput;
  step.incoming_left = false;
  return true;
}

bool DropFinish(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, [](const Step& step) { return step.finish; });
  if (site) At(schedule, *site).finish = false;
  return site.has_value();
}

bool FinishTooEarly(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, [](const Step& step) { return kAnyReduce(step) && !step.finish; });
  if (site) At(schedule, *site).finish = true;
  return site.has_value();
}

// Divides a second time, when the result is copied to the output.
bool FinishTwice(Schedule& schedule, Random& random) {
  if (schedule.key.world_size < 2) return false;
  const auto site =
      Pick(schedule, random, [](const Step& step) { return step.kind == StepKind::kCopy && !step.scale; });
  if (site) At(schedule, *site).finish = true;
  return site.has_value();
}

bool DropScale(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, [](const Step& step) { return step.scale; });
  if (site) At(schedule, *site).scale = false;
  return site.has_value();
}

bool ScaleTwice(Schedule& schedule, Random& random) {
  const auto site = Pick(schedule, random, [](const Step& step) { return step.scale; });
  if (!site) return false;
  Double(StepsOf(schedule, *site), site->step);
  Step& again = At(schedule, {site->rank, site->step + 1});
  again.source = again.destination;
  again.dependencies = {{site->step, DependencyKind::kReadAfterWrite}};
  std::vector<Step>& steps = StepsOf(schedule, *site);
  for (std::size_t s = site->step + 2; s < steps.size(); ++s) {
    for (Dependency& dependency : steps[s].dependencies) dependency.step += dependency.step == site->step ? 1 : 0;
  }
  return true;
}

constexpr std::array kMutations{
    Mutation{"drop a send", DropSend},
    Mutation{"drop a receive", DropReceive},
    Mutation{"drop a transfer at both ends", DropTransfer},
    Mutation{"drop a copy", DropCopy},
    Mutation{"send twice", DoubleSend},
    Mutation{"receive twice", DoubleReceive},
    Mutation{"combine a contribution twice", DoubleContribution},
    Mutation{"swap two sends of a lane", SwapSends},
    Mutation{"put a step before what it depends on", MoveBeforeDependency},
    Mutation{"send to another peer", WrongPeer},
    Mutation{"name a peer outside the world", PeerOutsideWorld},
    Mutation{"send to oneself", SendToSelf},
    Mutation{"give two transfers one number", SharedTransferNumber},
    Mutation{"send another chunk than is received", WrongChunkAtOneEnd},
    Mutation{"transfer a wrong chunk", WrongChunkAtBothEnds},
    Mutation{"send from a wrong buffer", WrongSourceOfSend},
    Mutation{"combine with a wrong buffer", WrongOwnOperand},
    Mutation{"receive into a wrong buffer", WrongDestination},
    Mutation{"receive into the input", WriteInput},
    Mutation{"drop a dependency", DropDependency},
    Mutation{"shift a dependency", ShiftDependency},
    Mutation{"depend on oneself", DependOnSelf},
    Mutation{"overwrite what was accepted but not released", IgnoreRelease},
    Mutation{"mistake the kind of a send's dependency", WrongKindForSend},
    Mutation{"exchange in one buffer", ExchangeInOneBuffer},
    Mutation{"mistake the root", MistakeRoot},
    Mutation{"take in place for out of place", MistakePlace},
    Mutation{"keep more in scratch than is written", KeepMoreScratch},
    Mutation{"keep less in scratch than is written", KeepLessScratch},
    Mutation{"forget what is kept in scratch", ForgetScratch},
    Mutation{"disorder what is kept in scratch", UnsortScratch},
    Mutation{"drop a local reduce", DropLocalReduce},
    Mutation{"swap the operands of a local reduce", SwapLocalOperands},
    Mutation{"reduce locally into the other operand", ReduceIntoOtherOperand},
    Mutation{"copy instead of reducing locally", CopyInsteadOfLocalReduce},
    Mutation{"swap the operands", SwapOperands},
    Mutation{"copy instead of combining", CopyInsteadOfReduce},
    Mutation{"never finish", DropFinish},
    Mutation{"finish too early", FinishTooEarly},
    Mutation{"finish twice", FinishTwice},
    Mutation{"forget to scale", DropScale},
    Mutation{"scale twice", ScaleTwice},
};

}  // namespace

std::span<const Mutation> AllMutations() { return kMutations; }

}  // namespace rondo
