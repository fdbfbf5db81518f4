#include "tools/trace/findings.h"

#include <algorithm>
#include <map>

namespace rondo {
namespace {

// A straggler is reported only if at least this many operations were compared.
constexpr std::size_t kFewest = 5;

// The records of one collective, ordered by rank.
using OnRanks = std::vector<std::pair<Rank, const TracedOperation*>>;
using ByNumber = std::map<std::uint64_t, OnRanks>;

ByNumber CollectivesOf(const GroupTrace& group) {
  ByNumber collectives;
  for (const auto& [rank, trace] : group.dumped)
    for (const TracedOperation& operation : trace.collectives)
      collectives[operation.number].emplace_back(rank, &operation);
  return collectives;
}

// Whether two ranks recorded different operations. Algorithms are compared only if both operations have started,
// because before that the algorithm may still change.
bool Differ(const TracedOperation& a, const TracedOperation& b) {
  return a.what != b.what || (a.started && b.started && a.algorithm != b.algorithm);
}

std::vector<TraceMismatch> MismatchesOf(const ByNumber& collectives) {
  std::vector<TraceMismatch> mismatches;
  for (const auto& [number, on_ranks] : collectives) {
    const TracedOperation& first = *on_ranks.front().second;
    if (std::none_of(on_ranks.begin(), on_ranks.end(), [&](const auto& one) { return Differ(first, *one.second); }))
      continue;
    TraceMismatch mismatch{.number = number, .sides = {}};
    for (const auto& [rank, operation] : on_ranks) {
      const std::string text = operation->Text();
      const auto side = std::find_if(mismatch.sides.begin(), mismatch.sides.end(),
                                     [&](const auto& one) { return one.first == text; });
      if (side != mismatch.sides.end()) {
        side->second.push_back(rank);
      } else {
        mismatch.sides.emplace_back(text, std::vector<Rank>{rank});
      }
    }
    mismatches.push_back(std::move(mismatch));
  }
  return mismatches;
}

// The earliest time at which any rank entered an operation after `number`, and the number of that operation.
std::optional<std::pair<Duration, std::uint64_t>> FirstBeyond(const GroupTrace& group, std::uint64_t number) {
  std::optional<std::pair<Duration, std::uint64_t>> first;
  for (const auto& [rank, trace] : group.dumped) {
    for (const TracedOperation& operation : trace.collectives) {
      if (operation.number <= number || !operation.started) continue;
      if (!first || *operation.started < first->first) first = {*operation.started, operation.number};
      break;  // operations are ordered by number, and therefore by time
    }
  }
  return first;
}

TraceRankState RankStateOf(const GroupTrace& group, Rank rank, const RankTrace& trace) {
  TraceRankState state;
  state.rank = rank;
  state.last_completed = trace.last_completed;
  state.failure = trace.failure;
  for (const TracedOperation& operation : trace.collectives) {
    if (operation.number == trace.last_completed && operation.ended) state.since = trace.dumped_at - *operation.ended;
    if (operation.number == trace.last_completed + 1 && (operation.unfinished() || operation.state == "failed")) {
      state.current = operation;
      const Duration entered = operation.started.value_or(operation.created);
      state.in_current = operation.ended.value_or(trace.dumped_at) - entered;
    }
  }
  const std::uint64_t behind_it = trace.last_completed + (state.current ? 1 : 0);
  state.waiting = trace.last_enqueued > behind_it ? trace.last_enqueued - behind_it : 0;
  if (const auto beyond = FirstBeyond(group, std::max(trace.last_started, trace.last_enqueued));
      beyond && trace.dumped_at - beyond->first >= kBehindFrom) {
    state.not_entered = beyond->second;
    state.behind = trace.dumped_at - beyond->first;
  }
  return state;
}

// When each rank entered the operation. For a coarse record the recorded time is a lower bound, and that time plus the
// largest delay of the coarse clock is an upper bound. Also, no rank leaves before all have entered. So each rank
// entered no later than the earliest time at which another rank left.
std::vector<Duration> ArrivalsOf(const GroupTrace& group, const OnRanks& on_ranks) {
  std::optional<Duration> first_to_leave;
  for (const auto& [rank, operation] : on_ranks)
    if (!operation->coarse && operation->synchronizes && operation->ended)
      first_to_leave = first_to_leave ? std::min(*first_to_leave, *operation->ended) : *operation->ended;
  std::vector<Duration> arrivals;
  for (const auto& [rank, operation] : on_ranks) {
    Duration arrival = *operation->started;
    const Duration latest = arrival + group.dumped.at(rank).coarse;
    if (operation->coarse && first_to_leave && *first_to_leave > arrival) arrival = std::min(*first_to_leave, latest);
    arrivals.push_back(arrival);
  }
  // If the records of all ranks are coarse, the operation completed at once on every rank. So no rank waited for
  // another, whatever the coarse clocks show.
  if (std::all_of(on_ranks.begin(), on_ranks.end(), [](const auto& one) { return one.second->coarse; }))
    std::fill(arrivals.begin(), arrivals.end(), arrivals.front());
  return arrivals;
}

Duration MedianOf(std::vector<Duration>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void CompareArrivals(const GroupTrace& group, const ByNumber& collectives, GroupFindings& findings) {
  if (group.dumped.size() < 2) return;
  std::map<Rank, std::vector<Duration>> late;
  std::map<Rank, TraceLateness> of_ranks;
  for (const auto& [number, on_ranks] : collectives) {
    const TracedOperation& model = *on_ranks.front().second;
    const bool complete =
        on_ranks.size() == group.dumped.size() && std::all_of(on_ranks.begin(), on_ranks.end(), [&](const auto& one) {
          return one.second->started && !Differ(model, *one.second);
        });
    if (!complete) continue;
    ++findings.compared;
    const std::vector<Duration> arrivals = ArrivalsOf(group, on_ranks);
    const auto [first, last] = std::minmax_element(arrivals.begin(), arrivals.end());
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      const Rank rank = on_ranks[i].first;
      const Duration by = arrivals[i] - *first;
      TraceLateness& of_rank = of_ranks[rank];
      of_rank.rank = rank;
      late[rank].push_back(by);
      if (arrivals[i] == *last && by > Duration::zero()) ++of_rank.last;
      if (by <= of_rank.most) continue;
      of_rank.most = by;
      of_rank.most_at = number;
    }
  }
  for (auto& [rank, of_rank] : of_ranks) {
    of_rank.median = MedianOf(late.at(rank));
    findings.lateness.push_back(of_rank);
  }
  std::stable_sort(findings.lateness.begin(), findings.lateness.end(),
                   [](const TraceLateness& a, const TraceLateness& b) { return a.median > b.median; });
}

void CollectMessages(const GroupTrace& group, GroupFindings& findings) {
  for (const auto& [rank, trace] : group.dumped)
    for (const TracedOperation& message : trace.messages)
      if (message.state != "completed")
        findings.messages.push_back({rank, message, message.ended.value_or(trace.dumped_at) - message.created});
}

}  // namespace

const TraceLateness* GroupFindings::Straggler() const {
  if (compared < kFewest || lateness.empty()) return nullptr;
  const TraceLateness& latest = lateness.front();
  return latest.median >= kLateFrom && latest.last * 2 > compared ? &latest : nullptr;
}

bool GroupFindings::IsHealthy() const {
  const bool all_ranks_are_well = std::none_of(rank_states.begin(), rank_states.end(), [](const TraceRankState& one) {
    return !one.failure.empty() || one.not_entered.has_value();
  });
  const bool none_failed = std::none_of(messages.begin(), messages.end(),
                                        [](const TraceMessage& one) { return one.operation.state == "failed"; });
  return missing.empty() && mismatches.empty() && all_ranks_are_well && none_failed;
}

std::vector<GroupFindings> FindingsOf(const Trace& trace) {
  std::vector<GroupFindings> all;
  for (const GroupTrace& group : trace.groups) {
    GroupFindings findings;
    findings.name = group.name;
    findings.description = group.description;
    findings.ranks = group.ranks;
    findings.missing = group.Missing();
    const ByNumber collectives = CollectivesOf(group);
    findings.mismatches = MismatchesOf(collectives);
    for (const auto& [rank, of_rank] : group.dumped) findings.rank_states.push_back(RankStateOf(group, rank, of_rank));
    CompareArrivals(group, collectives, findings);
    CollectMessages(group, findings);
    all.push_back(std::move(findings));
  }
  return all;
}

}  // namespace rondo
