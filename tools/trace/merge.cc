#include "tools/trace/merge.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace rondo {
namespace {

// The name of the clock that a rank uses; ranks with the same name share it. A rank without a host id has a name of its
// own.
std::string ClockOf(const RankTrace& trace) {
  return trace.host_id.empty() ? fmt::format("{}, pid {}, rank {}", trace.host, trace.pid, trace.rank) : trace.host_id;
}

void Shift(RankTrace& trace, Duration by) {
  const auto shift = [&](std::vector<TracedOperation>& operations) {
    for (TracedOperation& operation : operations) {
      operation.created += by;
      if (operation.started) *operation.started += by;
      if (operation.ended) *operation.ended += by;
    }
  };
  shift(trace.collectives);
  shift(trace.messages);
  trace.dumped_at += by;
  trace.clock_offset += by;
}

template <typename Do>
void ForEachTrace(Trace& trace, Do apply) {
  for (GroupTrace& group : trace.groups)
    for (auto& [rank, of_rank] : group.dumped) apply(of_rank);
}

// The range of corrections to the times of one host. If a time from `least` to `most` is added, no operation that this
// host shared with the first host contradicts the result.
struct Bounds {
  std::optional<Duration> least, most;

  // NotAfter: an operation started on this host at `start`, and ended on the first host at `end`. The start was not
  // later than the end.
  // NotBefore: an operation ended on this host at `end`, and started on the first host at `start`. The end was not
  // earlier than the start.
  void NotAfter(Duration start, Duration end) { most = most ? std::min(*most, end - start) : end - start; }
  void NotBefore(Duration end, Duration start) { least = least ? std::max(*least, start - end) : start - end; }
};

// The record of operation `number` if it limits the possible difference of the clocks: a completed operation that
// synchronizes the ranks, with precise times. Otherwise null.
const TracedOperation* Telling(const RankTrace& trace, std::uint64_t number) {
  const auto at =
      std::lower_bound(trace.collectives.begin(), trace.collectives.end(), number,
                       [](const TracedOperation& one, std::uint64_t wanted) { return one.number < wanted; });
  if (at == trace.collectives.end() || at->number != number) return nullptr;
  return at->synchronizes && at->state == "completed" && !at->coarse ? &*at : nullptr;
}

Bounds BoundsOf(const Trace& trace, const std::string& first, const std::string& other) {
  Bounds bounds;
  for (const GroupTrace& group : trace.groups) {
    for (const auto& [here_rank, here] : group.dumped) {
      if (ClockOf(here) != first) continue;
      for (const auto& [there_rank, there] : group.dumped) {
        if (ClockOf(there) != other) continue;
        for (const TracedOperation& mine : here.collectives) {
          const TracedOperation* const theirs = Telling(there, mine.number);
          if (theirs == nullptr || Telling(here, mine.number) == nullptr || mine.what != theirs->what) continue;
          bounds.NotAfter(*theirs->started, *mine.ended);
          bounds.NotBefore(*theirs->ended, *mine.started);
        }
      }
    }
  }
  return bounds;
}

void AlignHosts(Trace& trace) {
  // A host has only one offset, which is that of its first dump. So its ranks stay aligned even if its wall clock is
  // set between two dumps.
  std::map<std::string, Duration> offsets;
  std::vector<std::string> clocks;  // names of clocks, in the order of the first rank that uses each
  ForEachTrace(trace, [&](RankTrace& of_rank) {
    const auto [at, is_new] = offsets.emplace(ClockOf(of_rank), of_rank.clock_offset);
    if (is_new) {
      clocks.push_back(at->first);
      trace.hosts.push_back({of_rank.host, Duration::zero(), std::nullopt});
    }
    Shift(of_rank, at->second - of_rank.clock_offset);
  });
  trace.hosts.front().error = Duration::zero();
  for (std::size_t i = 1; i < clocks.size(); ++i) {
    const Bounds bounds = BoundsOf(trace, clocks.front(), clocks[i]);
    if (!bounds.least || !bounds.most) continue;
    const bool wall_clocks_fit = *bounds.least <= Duration::zero() && *bounds.most >= Duration::zero();
    HostClock& host = trace.hosts[i];
    host.shifted = wall_clocks_fit ? Duration::zero() : (*bounds.least + *bounds.most) / 2;
    host.error =
        wall_clocks_fit ? std::max(-*bounds.least, *bounds.most) : std::max(*bounds.most, *bounds.least) - host.shifted;
    ForEachTrace(trace, [&](RankTrace& of_rank) {
      if (ClockOf(of_rank) == clocks[i]) Shift(of_rank, host.shifted);
    });
  }
}

}  // namespace

std::vector<Rank> GroupTrace::Missing() const {
  std::vector<Rank> missing;
  for (const Rank rank : ranks)
    if (!dumped.contains(rank)) missing.push_back(rank);
  return missing;
}

Result<Trace> MergeDumps(std::vector<Dump> dumps) {
  Trace trace;
  trace.job = dumps.front().job;
  trace.generation = dumps.front().generation;
  std::map<std::string, GroupTrace> groups;
  std::map<std::string, std::string> first_file;  // by group
  for (Dump& dump : dumps) {
    if (dump.job != trace.job || dump.generation != trace.generation)
      return Fail(ErrorCode::kInvalidArgument, "{} is of job {}, generation {}, but {} is of job {}, generation {}",
                  dumps.front().file, trace.job, trace.generation, dump.file, dump.job, dump.generation);
    for (DumpedPart& part : dump.parts) {
      GroupTrace& group = groups[part.group];
      if (group.ranks.empty()) {
        group.name = part.group;
        group.description = part.description;
        group.ranks = part.ranks;
        first_file[part.group] = dump.file;
      } else if (group.ranks != part.ranks) {
        return Fail(ErrorCode::kInvalidArgument, "group {} has ranks {} in {}, but {} in {}", part.group,
                    fmt::join(group.ranks, ", "), first_file[part.group], fmt::join(part.ranks, ", "), dump.file);
      }
      const auto [at, is_new] = group.dumped.try_emplace(part.trace.rank);
      if (is_new || at->second.dumped_at < part.trace.dumped_at) at->second = std::move(part.trace);
    }
  }
  for (auto& [name, group] : groups) trace.groups.push_back(std::move(group));
  if (trace.groups.empty())
    return Fail(ErrorCode::kInvalidArgument, "{} contains no group, so nothing was recorded", dumps.front().file);
  AlignHosts(trace);
  return trace;
}

}  // namespace rondo
