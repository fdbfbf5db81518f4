#include "tools/trace/report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/version.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

// At most this many lines of one kind are printed. Further lines are only counted.
constexpr std::size_t kMaxLines = 10;

double Us(Duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

// Returns for example "12.3 us", "4.56 ms", "3.120 s".
std::string TimeText(Duration time) {
  if (time < Duration::zero()) return "-" + TimeText(-time);
  const double us = Us(time);
  if (us < 1e3) return fmt::format("{:.1f} us", us);
  return us < 1e6 ? fmt::format("{:.2f} ms", us / 1e3) : fmt::format("{:.3f} s", us / 1e6);
}

// Returns for example "rank 3", "ranks 0, 2, 5-7".
std::string RanksText(const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += i == 0 ? "" : ", ";
    text += fmt::format("{}", ranks[i]);
    if (end - i == 2) text += fmt::format(", {}", ranks[end - 1]);
    if (end - i > 2) text += fmt::format("-{}", ranks[end - 1]);
    i = end;
  }
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", text);
}

std::string PlaceText(const TracedOperation& operation) {
  if (!operation.bytes_due) return "";
  const std::string step = operation.step ? fmt::format(" of step {}", *operation.step) : "";
  return fmt::format(", {} of {} bytes{}", operation.bytes_done.value_or(0), *operation.bytes_due, step);
}

std::string RankStateText(const TraceRankState& state) {
  std::string text = fmt::format("  rank {}: ", state.rank);
  if (state.current) {
    const TracedOperation& current = *state.current;
    text +=
        fmt::format("{} #{} {} {} {}{}", current.state == "failed" ? "failed in" : "in", current.number, current.Text(),
                    current.state == "failed" ? "after" : "for", TimeText(state.in_current), PlaceText(current));
  } else if (state.last_completed == 0) {
    text += "in no operation so far";
  } else {
    text += fmt::format("in no operation, after #{}", state.last_completed);
    if (state.since) text += fmt::format(", which completed {} earlier", TimeText(*state.since));
  }
  if (state.waiting > 0) text += fmt::format("; {} more issued behind it", state.waiting);
  if (state.not_entered)
    text += fmt::format("; BEHIND: it has not entered #{}, which other ranks entered {} earlier", *state.not_entered,
                        TimeText(state.behind));
  return text + "\n";
}

// Prints the first few of `items`, and the number of the others.
template <typename Items, typename Say>
std::string FirstOf(const Items& items, Say say) {
  std::string text;
  const std::size_t shown = std::min(items.size(), kMaxLines);
  for (std::size_t i = 0; i < shown; ++i) text += say(items[i]);
  if (shown < items.size()) text += fmt::format("  and {} more\n", items.size() - shown);
  return text;
}

std::string MismatchText(const TraceMismatch& mismatch) {
  std::string text = fmt::format("  #{}:", mismatch.number);
  for (std::size_t i = 0; i < mismatch.sides.size(); ++i)
    text += fmt::format("{} {} {}", i == 0 ? "" : ";", RanksText(mismatch.sides[i].second), mismatch.sides[i].first);
  return text + "\n";
}

std::string MessageText(const TraceMessage& one) {
  const TracedOperation& message = one.operation;
  return fmt::format("  rank {}: {}, {} {} {}{}{}\n", one.rank, message.what, message.state,
                     message.state == "failed" ? "after" : "for", TimeText(one.since), PlaceText(message),
                     message.error.empty() ? "" : ": " + message.error);
}

std::string LatenessText(const GroupFindings& group) {
  if (group.compared == 0) return "";
  std::string text = fmt::format("lateness in the {} operations that all ranks entered:\n", group.compared);
  text += FirstOf(group.lateness, [&](const TraceLateness& one) {
    return fmt::format("  rank {}: median {} after the first rank, at most {} (#{}), last rank in {} of {}\n", one.rank,
                       TimeText(one.median), TimeText(one.most), one.most_at, one.last, group.compared);
  });
  if (const TraceLateness* const latest = group.Straggler(); latest != nullptr)
    text += fmt::format(
        "straggler: rank {} was the last rank in {:.0f}% of these operations, with a median of {} after the first "
        "rank\n",
        latest->rank, 100.0 * static_cast<double>(latest->last) / static_cast<double>(group.compared),
        TimeText(latest->median));
  return text;
}

std::string GroupText(const GroupFindings& group, const GroupTrace& trace) {
  std::string text = fmt::format("group {} ({}), {} {}\n", group.name, group.description, group.ranks.size(),
                                 group.ranks.size() == 1 ? "rank" : "ranks");
  if (!group.missing.empty()) text += fmt::format("MISSING: {} wrote no records\n", RanksText(group.missing));
  if (!group.mismatches.empty())
    text += fmt::format("MISMATCH: the ranks called different operations\n{}", FirstOf(group.mismatches, MismatchText));
  std::vector<TraceRankState> rank_states = group.rank_states;  // sorted so that ranks for which others wait come first
  std::stable_sort(rank_states.begin(), rank_states.end(), [](const TraceRankState& a, const TraceRankState& b) {
    if (a.not_entered.has_value() != b.not_entered.has_value()) return a.not_entered.has_value();
    return a.last_completed < b.last_completed;
  });
  text += "states of the ranks:\n" + FirstOf(rank_states, RankStateText);
  std::vector<const TraceRankState*> failed;
  for (const TraceRankState& state : group.rank_states)
    if (!state.failure.empty()) failed.push_back(&state);
  if (!failed.empty()) {
    text += "failures:\n" + FirstOf(failed, [](const TraceRankState* one) {
              return fmt::format("  rank {}: {}\n", one->rank, one->failure);
            });
  }
  if (!group.messages.empty()) text += "incomplete messages:\n" + FirstOf(group.messages, MessageText);
  text += LatenessText(group);
  std::vector<std::string> sources;
  for (const auto& [rank, dump] : trace.dumped)
    sources.push_back(
        fmt::format("  rank {}: {} (host {}, pid {}; {})\n", rank, dump.file, dump.host, dump.pid, dump.reason));
  return text + "records:\n" + FirstOf(sources, [](const std::string& line) { return line; });
}

std::string ClocksText(const Trace& trace) {
  if (trace.hosts.size() < 2) return "clock: one host, times are exact\n";
  std::string text = "clocks:\n";
  return text + FirstOf(trace.hosts, [](const HostClock& host) {
           return fmt::format("  host {}: {}{}\n", host.host,
                              host.error ? "within " + TimeText(*host.error) + " of the first"
                                         : "as good as its wall clock: no operation compares it with the first",
                              host.shifted == Duration::zero() ? "" : ", shifted by " + TimeText(host.shifted));
         });
}

std::string SummaryText(const std::vector<GroupFindings>& findings) {
  std::size_t missing = 0, mismatches = 0, behind = 0, failures = 0;
  for (const GroupFindings& group : findings) {
    missing += group.missing.size();
    mismatches += group.mismatches.size();
    for (const TraceRankState& state : group.rank_states) {
      behind += state.not_entered ? 1 : 0;
      failures += state.failure.empty() ? 0 : 1;
    }
  }
  const bool healthy = std::all_of(findings.begin(), findings.end(), [](const auto& one) { return one.IsHealthy(); });
  if (healthy) return "nothing is wrong\n";
  return fmt::format("{} without records, {} mismatched operations, {} behind, {} failed\n", missing, mismatches,
                     behind, failures);
}

// ---- JSON ----

Json OperationJson(const TracedOperation& operation) {
  return Json{{"number", operation.number},
              {"operation", operation.Text()},
              {"state", operation.state},
              {"error", operation.error.empty() ? Json(nullptr) : Json(operation.error)}};
}

Json RankStateJson(const TraceRankState& one) {
  return Json{{"rank", one.rank},
              {"last_completed", one.last_completed},
              {"in", one.current ? OperationJson(*one.current) : Json(nullptr)},
              {"in_us", one.current ? Json(Us(one.in_current)) : Json(nullptr)},
              {"waiting", one.waiting},
              {"not_entered", one.not_entered ? Json(*one.not_entered) : Json(nullptr)},
              {"behind_us", one.not_entered ? Json(Us(one.behind)) : Json(nullptr)},
              {"failure", one.failure.empty() ? Json(nullptr) : Json(one.failure)}};
}

Json MismatchJson(const TraceMismatch& mismatch) {
  Json sides = Json::array();
  for (const auto& [operation, ranks] : mismatch.sides)
    sides.push_back(Json{{"operation", operation}, {"ranks", ranks}});
  return Json{{"number", mismatch.number}, {"sides", sides}};
}

template <typename Items, typename AsJson>
Json ListJson(const Items& items, AsJson as_json) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(as_json(item));
  return list;
}

Json GroupJson(const GroupFindings& group) {
  const TraceLateness* const latest = group.Straggler();
  return Json{{"name", group.name},
              {"description", group.description},
              {"ranks", group.ranks},
              {"missing", group.missing},
              {"mismatches", ListJson(group.mismatches, MismatchJson)},
              {"rank_states", ListJson(group.rank_states, RankStateJson)},
              {"compared", group.compared},
              {"lateness", ListJson(group.lateness,
                                    [](const TraceLateness& one) {
                                      return Json{{"rank", one.rank},
                                                  {"median_us", Us(one.median)},
                                                  {"max_us", Us(one.most)},
                                                  {"max_at", one.most_at},
                                                  {"last", one.last}};
                                    })},
              {"straggler", latest != nullptr ? Json(latest->rank) : Json(nullptr)},
              {"messages", ListJson(group.messages, [](const TraceMessage& one) {
                 return Json{{"rank", one.rank}, {"us", Us(one.since)}, {"message", OperationJson(one.operation)}};
               })}};
}

}  // namespace

std::string TraceText(const Trace& trace, const std::vector<GroupFindings>& findings) {
  std::string text = fmt::format("job {}, generation {}\n", trace.job, trace.generation);
  for (std::size_t i = 0; i < findings.size(); ++i) text += GroupText(findings[i], trace.groups[i]);
  return text + ClocksText(trace) + SummaryText(findings);
}

std::string TraceJson(const Trace& trace, const std::vector<GroupFindings>& findings) {
  const bool healthy = std::all_of(findings.begin(), findings.end(), [](const auto& one) { return one.IsHealthy(); });
  const Json json{{"rondo", kRondoVersion},
                  {"job", trace.job},
                  {"generation", trace.generation},
                  {"healthy", healthy},
                  {"hosts", ListJson(trace.hosts,
                                     [](const HostClock& host) {
                                       return Json{{"host", host.host},
                                                   {"shifted_us", Us(host.shifted)},
                                                   {"error_us", host.error ? Json(Us(*host.error)) : Json(nullptr)}};
                                     })},
                  {"groups", ListJson(findings, GroupJson)}};
  return json.dump(1) + "\n";
}

}  // namespace rondo
