#include "tools/trace/events.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/version.h"

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

Duration EntryOf(const TracedOperation& operation) { return operation.started.value_or(operation.created); }

Duration BeginOf(const Trace& trace) {
  std::optional<Duration> begin;
  for (const GroupTrace& group : trace.groups) {
    for (const auto& [rank, of_rank] : group.dumped) {
      for (const auto* operations : {&of_rank.collectives, &of_rank.messages})
        for (const TracedOperation& operation : *operations)
          begin = begin ? std::min(*begin, operation.created) : operation.created;
    }
  }
  return begin.value_or(Duration::zero());
}

class EventWriter {
 public:
  explicit EventWriter(const Trace& trace) : trace_(trace), begin_(BeginOf(trace)) {}

  Json Write() {
    for (std::size_t i = 0; i < trace_.groups.size(); ++i) {
      const GroupTrace& group = trace_.groups[i];
      const auto thread = static_cast<int>(2 * i);
      for (const auto& [rank, of_rank] : group.dumped) {
        NameProcess(rank, of_rank);
        NameThread(rank, thread, fmt::format("group {} collectives", group.name));
        for (const TracedOperation& operation : of_rank.collectives) AddCollective(rank, thread, operation, of_rank);
        if (of_rank.messages.empty()) continue;
        NameThread(rank, thread + 1, fmt::format("group {} messages", group.name));
        for (const TracedOperation& operation : of_rank.messages) AddMessage(rank, thread + 1, operation, of_rank);
      }
    }
    return std::move(events_);
  }

  Duration begin() const { return begin_; }

 private:
  double Us(Duration time) const { return std::chrono::duration<double, std::micro>(time - begin_).count(); }

  void NameProcess(Rank rank, const RankTrace& of_rank) {
    const std::string name = fmt::format("rank {} ({}, pid {})", rank, of_rank.host, of_rank.pid);
    events_.push_back(Json{{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", Json{{"name", name}}}});
    events_.push_back(
        Json{{"name", "process_sort_index"}, {"ph", "M"}, {"pid", rank}, {"args", Json{{"sort_index", rank}}}});
  }

  void NameThread(Rank rank, int thread, const std::string& name) {
    events_.push_back(
        Json{{"name", "thread_name"}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", Json{{"name", name}}}});
  }

  static Json ArgumentsOf(const TracedOperation& operation) {
    Json arguments{{"number", operation.number}, {"operation", operation.Text()}, {"state", operation.state}};
    if (operation.coarse) arguments["coarse"] = true;
    if (operation.bytes_due) {
      arguments["bytes_done"] = operation.bytes_done.value_or(0);
      arguments["bytes_due"] = *operation.bytes_due;
    }
    if (!operation.error.empty()) arguments["error"] = operation.error;
    return arguments;
  }

  // Returns for example "all_reduce #17" or "all_reduce #17 (failed)".
  static std::string TitleOf(const TracedOperation& operation) {
    const std::string kind = operation.what.substr(0, operation.what.find(' '));
    const bool good = operation.state == "completed";
    return fmt::format("{} #{}{}", kind, operation.number, good ? "" : " (" + operation.state + ")");
  }

  void AddCollective(Rank rank, int thread, const TracedOperation& operation, const RankTrace& of_rank) {
    const Duration entry = EntryOf(operation);
    const Duration end = std::max(entry, operation.ended.value_or(of_rank.dumped_at));
    events_.push_back(Json{{"name", TitleOf(operation)},
                           {"cat", "collective"},
                           {"ph", "X"},
                           {"ts", Us(entry)},
                           {"dur", std::chrono::duration<double, std::micro>(end - entry).count()},
                           {"pid", rank},
                           {"tid", thread},
                           {"args", ArgumentsOf(operation)}});
  }

  // Messages may overlap in time, so they are written as asynchronous events, which need not be nested.
  void AddMessage(Rank rank, int thread, const TracedOperation& operation, const RankTrace& of_rank) {
    const Duration end = std::max(operation.created, operation.ended.value_or(of_rank.dumped_at));
    const std::string id = fmt::format("{}.{}.{}", rank, thread, operation.number);
    for (const auto& [phase, time] : {std::pair{"b", operation.created}, std::pair{"e", end}}) {
      Json event{{"name", TitleOf(operation)},
                 {"cat", "message"},
                 {"ph", phase},
                 {"id", id},
                 {"ts", Us(time)},
                 {"pid", rank},
                 {"tid", thread}};
      if (*phase == 'b') event["args"] = ArgumentsOf(operation);
      events_.push_back(std::move(event));
    }
  }

  const Trace& trace_;
  const Duration begin_;
  Json events_ = Json::array();
};

}  // namespace

std::string TraceEvents(const Trace& trace) {
  EventWriter writer(trace);
  Json events = writer.Write();
  const Json json{{"traceEvents", std::move(events)},
                  {"displayTimeUnit", "ms"},
                  {"otherData", Json{{"rondo", kRondoVersion},
                                     {"job", trace.job},
                                     {"generation", trace.generation},
                                     {"begin_ns", writer.begin().count()}}}};
  return json.dump() + "\n";
}

}  // namespace rondo
