// Lanes and progress: each send has its receive, and no step waits forever.
#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "collectives/schedule/text.h"
#include "collectives/schedule/verify_parts.h"

namespace rondo {
namespace verify {
namespace {

struct LaneEnd {
  Rank from = 0;
  Rank to = 0;
  Place place;
  bool SameLane(const LaneEnd& other) const { return from == other.from && to == other.to; }
};

// All sends, or all receives, sorted by lane; those of one lane keep the lane's order.
std::vector<LaneEnd> LaneEnds(const Schedule& schedule, bool sends) {
  std::vector<LaneEnd> ends;
  for (const RankSchedule& rank : schedule.ranks) {
    for (std::uint32_t s = 0; s < rank.steps.size(); ++s) {
      const Step& step = rank.steps[s];
      if (sends && Sends(step)) ends.push_back({rank.rank, step.peer, {rank.rank, s}});
      if (!sends && Receives(step)) ends.push_back({step.peer, rank.rank, {rank.rank, s}});
    }
  }
  std::stable_sort(ends.begin(), ends.end(), [](const LaneEnd& a, const LaneEnd& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  return ends;
}

const Step& StepAt(const Schedule& schedule, Place place) {
  return schedule.ranks[static_cast<std::size_t>(place.rank)].steps[place.step];
}

// Numbers the steps of all ranks consecutively.
class StepNumbers {
 public:
  explicit StepNumbers(const Schedule& schedule) {
    for (const RankSchedule& rank : schedule.ranks) {
      first_.push_back(size_);
      size_ += rank.steps.size();
    }
  }
  std::size_t Of(Place place) const { return first_[static_cast<std::size_t>(place.rank)] + place.step; }
  std::size_t size() const { return size_; }

 private:
  std::vector<std::size_t> first_;
  std::size_t size_ = 0;
};

// For each step that is a send: the number of the run to which it belongs.
std::vector<std::uint32_t> Runs(const RankSchedule& rank) {
  std::vector<std::uint32_t> runs;
  std::uint32_t run = 0;
  for (const Step& step : rank.steps) runs.push_back(Sends(step) ? run : run++);
  return runs;
}

struct Edge {
  std::uint32_t from = 0;  // this event happens before `to`
  std::uint32_t to = 0;
  const char* why = "";
};

// The edges of the order: which event must happen before which other one.
std::vector<Edge> Edges(const Schedule& schedule, const std::vector<Event>& events) {
  const StepNumbers numbers(schedule);
  std::vector<std::uint32_t> event_of(numbers.size());
  for (std::uint32_t e = 0; e < events.size(); ++e) {
    event_of[numbers.Of(events[e].first)] = e;
    event_of[numbers.Of(events[e].second)] = e;
  }
  std::vector<std::vector<std::uint32_t>> runs;
  for (const RankSchedule& rank : schedule.ranks) runs.push_back(Runs(rank));
  const auto run_of = [&](Place place) { return runs[static_cast<std::size_t>(place.rank)][place.step]; };
  std::vector<Edge> edges;
  const auto wait_for_dependencies = [&](std::uint32_t waiting, Place place, const char* why) {
    for (const Dependency& dependency : StepAt(schedule, place).dependencies)
      edges.push_back({event_of[numbers.Of({place.rank, dependency.step})], waiting, why});
  };
  std::uint32_t first_of_run = 0;
  for (std::uint32_t e = 0; e < events.size(); ++e) {
    wait_for_dependencies(e, events[e].first, "waits for");
    if (!events[e].is_transfer) {
      const bool behind_another =
          e > 0 && !events[e - 1].is_transfer && events[e - 1].first.rank == events[e].first.rank;
      if (behind_another) edges.push_back({e - 1, e, "comes among its rank's local steps after"});
      continue;
    }
    wait_for_dependencies(e, events[e].second, "waits for");
    const bool same_lane =
        e > 0 && events[e - 1].first.rank == events[e].first.rank && events[e - 1].second.rank == events[e].second.rank;
    if (same_lane) edges.push_back({e - 1, e, "comes in its lane after"});
    if (same_lane && run_of(events[e].first) == run_of(events[first_of_run].first)) {
      wait_for_dependencies(first_of_run, events[e].first, "goes together with one that waits for");
    } else {
      first_of_run = e;
    }
  }
  return edges;
}

// Describes a cycle among events that never became ready. Each of them has a predecessor that never became ready
// either.
std::string DescribeCycle(const Schedule& schedule, const std::vector<Event>& events, const std::vector<Edge>& edges,
                          const std::vector<bool>& done) {
  std::map<std::uint32_t, const Edge*> waits_for;
  for (const Edge& edge : edges) {
    if (!done[edge.from] && !done[edge.to]) waits_for[edge.to] = &edge;
  }
  std::uint32_t at = waits_for.begin()->first;
  for (std::size_t i = 0; i < events.size(); ++i) at = waits_for.at(at)->from;  // at the end, `at` is on the cycle
  std::string text;
  const std::uint32_t start = at;
  do {
    const Edge& edge = *waits_for.at(at);
    text += "\n  " + Describe(schedule, events[at].first);
    if (events[at].is_transfer) text += ", with " + Describe(schedule, events[at].second) + ",";
    text += fmt::format(" {}", edge.why);
    at = edge.from;
  } while (at != start);
  return text + "\n  the first of these again";
}

}  // namespace

Result<std::vector<Event>> PairSteps(const Schedule& schedule) {
  const std::vector<LaneEnd> sends = LaneEnds(schedule, true);
  const std::vector<LaneEnd> receives = LaneEnds(schedule, false);
  std::vector<Event> events;
  events.reserve(sends.size());
  std::size_t r = 0;
  for (const LaneEnd& send : sends) {
    if (r < receives.size() && std::pair(receives[r].from, receives[r].to) < std::pair(send.from, send.to)) break;
    if (r == receives.size() || !receives[r].SameLane(send)) {
      return CounterExample("{} sends what rank {} never receives", Describe(schedule, send.place), send.to);
    }
    const Step& sent = StepAt(schedule, send.place);
    const Step& received = StepAt(schedule, receives[r].place);
    if (sent.transfer != received.transfer || sent.chunks != received.chunks) {
      return CounterExample("the lane from rank {} to rank {} does not carry what was expected: {} meets {}", send.from,
                            send.to, Describe(schedule, send.place), Describe(schedule, receives[r].place));
    }
    events.push_back({send.place, receives[r].place, true});
    ++r;
  }
  if (r < receives.size()) {
    return CounterExample("{} receives what rank {} never sends", Describe(schedule, receives[r].place),
                          receives[r].from);
  }

  std::vector<std::pair<std::uint32_t, Place>> transfers;
  for (const Event& event : events) transfers.emplace_back(StepAt(schedule, event.first).transfer, event.first);
  const auto by_number = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::sort(transfers.begin(), transfers.end(), by_number);
  const auto twice = std::adjacent_find(transfers.begin(), transfers.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != transfers.end()) {
    return CounterExample("{} and {} have the same transfer number", Describe(schedule, twice->second),
                          Describe(schedule, std::next(twice)->second));
  }

  for (const RankSchedule& rank : schedule.ranks) {
    for (std::uint32_t s = 0; s < rank.steps.size(); ++s) {
      const Place place{rank.rank, s};
      if (IsLocal(rank.steps[s].kind)) events.push_back({place, place, false});
    }
  }
  return events;
}

Result<std::vector<Event>> OrderEvents(const Schedule& schedule, std::vector<Event> events) {
  const std::vector<Edge> edges = Edges(schedule, events);
  std::vector<std::uint32_t> waiting_for(events.size(), 0);
  // for each event: the index of its first edge, if the edges are sorted by `from`
  std::vector<std::uint32_t> first_edge(events.size() + 1, 0);
  for (const Edge& edge : edges) {
    ++waiting_for[edge.to];
    ++first_edge[edge.from + 1];
  }
  for (std::size_t e = 0; e < events.size(); ++e) first_edge[e + 1] += first_edge[e];
  std::vector<std::uint32_t> successors(edges.size());
  std::vector<std::uint32_t> fill(first_edge.begin(), first_edge.end() - 1);
  for (const Edge& edge : edges) successors[fill[edge.from]++] = edge.to;

  // Among the ready events, local steps come first, then the transfer with the lowest number.
  using Candidate = std::pair<std::uint32_t, std::uint32_t>;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> ready;
  const auto push = [&](std::uint32_t e) {
    ready.emplace(events[e].is_transfer ? StepAt(schedule, events[e].first).transfer : 0, e);
  };
  for (std::uint32_t e = 0; e < events.size(); ++e) {
    if (waiting_for[e] == 0) push(e);
  }
  std::vector<Event> ordered;
  ordered.reserve(events.size());
  std::vector<bool> done(events.size(), false);
  while (!ready.empty()) {
    const std::uint32_t e = ready.top().second;
    ready.pop();
    done[e] = true;
    ordered.push_back(events[e]);
    for (std::uint32_t i = first_edge[e]; i < first_edge[e + 1]; ++i) {
      if (--waiting_for[successors[i]] == 0) push(successors[i]);
    }
  }
  if (ordered.size() < events.size()) {
    return CounterExample("these steps wait for each other forever:{}", DescribeCycle(schedule, events, edges, done));
  }
  return ordered;
}

}  // namespace verify

Status VerifyRankOrder(const RankSchedule& rank) {
  using verify::CounterExample;
  // For each step: one plus the highest transfer number among the step and everything that it waits for; 0: no
  // transfer.
  std::vector<std::uint64_t> reach(rank.steps.size(), 0);
  std::uint64_t local_reach = 0;  // the reach of the latest local step, because local steps run one after the other
  std::map<std::pair<bool, Rank>, std::uint32_t> last_in_lane;
  // for each peer: the latest run of sends, and the number of that run's first transfer
  std::map<Rank, std::pair<std::uint32_t, std::uint32_t>> first_of_run;
  const std::vector<std::uint32_t> runs = verify::Runs(rank);
  for (std::uint32_t s = 0; s < rank.steps.size(); ++s) {
    const Step& step = rank.steps[s];
    const std::uint64_t own = std::uint64_t{step.transfer} + 1;
    for (const Dependency& dependency : step.dependencies) {
      if (dependency.step >= s) {
        return CounterExample("rank {} step {} ({}) depends on step {}, which does not come before it", rank.rank, s,
                              Print(step), dependency.step);
      }
      reach[s] = std::max(reach[s], reach[dependency.step]);
    }
    if (IsLocal(step.kind)) {
      reach[s] = local_reach = std::max(reach[s], local_reach);
      continue;
    }
    if (reach[s] >= own) {
      return CounterExample("rank {} step {} ({}) waits for transfer {}, which is not an earlier one", rank.rank, s,
                            Print(step), reach[s] - 1);
    }
    if (verify::Sends(step)) {
      std::pair<std::uint32_t, std::uint32_t>& first =
          first_of_run.try_emplace(step.peer, runs[s], step.transfer).first->second;
      if (first.first != runs[s]) first = {runs[s], step.transfer};
      if (reach[s] > first.second) {
        return CounterExample(
            "rank {} step {} ({}) waits for transfer {}, and transfer {}, an earlier one, goes with it", rank.rank, s,
            Print(step), reach[s] - 1, first.second);
      }
    }
    reach[s] = own;
    const auto [last, fresh] = last_in_lane.try_emplace({verify::Sends(step), step.peer}, step.transfer);
    if (!fresh && step.transfer <= last->second) {
      return CounterExample("rank {} step {} ({}) comes in its lane after transfer {}", rank.rank, s, Print(step),
                            last->second);
    }
    last->second = step.transfer;
  }
  return {};
}

Status VerifyLane(const RankSchedule& sender, const RankSchedule& receiver) {
  using verify::CounterExample;
  std::size_t r = 0;
  const auto next_receive = [&] {
    while (r < receiver.steps.size() &&
           !(verify::Receives(receiver.steps[r]) && receiver.steps[r].peer == sender.rank)) {
      ++r;
    }
    return r < receiver.steps.size() ? &receiver.steps[r] : nullptr;
  };
  for (const Step& sent : sender.steps) {
    if (!verify::Sends(sent) || sent.peer != receiver.rank) continue;
    const Step* received = next_receive();
    if (received == nullptr || received->transfer != sent.transfer || received->chunks != sent.chunks) {
      return CounterExample("on the lane from rank {} to rank {}, ({}) meets ({})", sender.rank, receiver.rank,
                            Print(sent), received == nullptr ? "nothing" : Print(*received));
    }
    ++r;
  }
  if (const Step* received = next_receive(); received != nullptr) {
    return CounterExample("on the lane from rank {} to rank {}, nothing meets ({})", sender.rank, receiver.rank,
                          Print(*received));
  }
  return {};
}

}  // namespace rondo
