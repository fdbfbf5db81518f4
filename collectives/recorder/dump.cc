#include "collectives/recorder/dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

// The version of c10d's dump format that this file writes. c10d defines its fields and their meanings.
constexpr std::string_view kC10dVersion = "2.10";
constexpr int kLooksAtClocks = 5;

// Host names, jobs and errors may contain invalid UTF-8.
std::string Quoted(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string QuotedOrNull(std::string_view text) { return text.empty() ? "null" : Quoted(text); }

// The names of element types in c10d's dumps.
std::string_view C10dName(DataType type) {
  switch (type) {
    case DataType::kInt8: return "Char";
    case DataType::kUint8: return "Byte";
    case DataType::kInt32: return "Int";
    case DataType::kUint32: return "UInt32";
    case DataType::kInt64: return "Long";
    case DataType::kUint64: return "UInt64";
    case DataType::kFloat16: return "Half";
    case DataType::kBfloat16: return "BFloat16";
    case DataType::kFloat32: return "Float";
    case DataType::kFloat64: return "Double";
    case DataType::kBool: return "Bool";
  }
  return "Undefined";
}

struct Sizes {
  std::uint64_t input = 0, output = 0;  // elements
};

// Sizes of the buffers as c10d defines them: equal on all ranks, even on ranks that ignore a buffer.
Sizes SizesOf(const Record& record, std::uint64_t world_size) {
  if (record.kind == RecordKind::kSend) return {record.count, 0};
  if (record.kind == RecordKind::kReceive) return {0, record.count};
  if (record.varying) return {record.input_elements, record.output_elements};
  const std::uint64_t one = record.count, all = record.count * world_size;
  switch (record.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kBroadcast: return {one, one};
    case Collective::kAllGather:
    case Collective::kGather: return {one, all};
    case Collective::kReduceScatter:
    case Collective::kScatter: return {all, one};
    case Collective::kAllToAll: return {all, all};
    case Collective::kBarrier: break;
  }
  return {};
}

// Returns "rondo:all_reduce", "rondo:all_gather_v", "rondo:send 1->2", "rondo:recv 2<-1" or "rondo:recv 2<-any".
std::string ProfilingName(const Record& record, Rank self) {
  const std::string other = record.peer == kAnyRank ? "any" : fmt::format("{}", record.peer);
  switch (record.kind) {
    case RecordKind::kSend: return fmt::format("rondo:send {}->{}", self, other);
    case RecordKind::kReceive: return fmt::format("rondo:recv {}<-{}", self, other);
    case RecordKind::kCollective: break;
  }
  return fmt::format("rondo:{}{}", Name(record.collective), record.varying ? "_v" : "");
}

class EntryWriter {
 public:
  EntryWriter(const DumpOrigin& origin, const DumpedGroup& group, std::size_t pg_id)
      : origin_(origin), group_(group), pg_id_(pg_id) {}

  std::string Write(const Record& record, std::size_t record_id) const {
    const bool collective = record.kind == RecordKind::kCollective;
    const bool has_data = !collective || record.collective != Collective::kBarrier;
    const Sizes sizes = SizesOf(record, group_.ranks.size());
    const bool sends = record.kind != RecordKind::kReceive, receives = record.kind != RecordKind::kSend;
    const auto shape = [&](bool there, std::uint64_t elements) {
      return there && has_data ? fmt::format("[[{}]]", elements) : std::string("[]");
    };
    const auto types = [&](bool there) {
      return there && has_data ? fmt::format("[\"{}\"]", C10dName(record.type)) : std::string("[]");
    };
    const bool completed = record.state == RecordState::kCompleted;
    const bool final = completed || record.state == RecordState::kFailed;
    const bool has_started = record.started != TimePoint{};
    const std::string duration =
        completed ? fmt::format("{}", std::chrono::duration<double, std::milli>(record.ended - record.started).count())
                  : "null";
    std::string text = fmt::format(
        R"({{"record_id": {}, "pg_id": {}, "process_group": [{}, {}], "collective_seq_id": {}, "p2p_seq_id": {}, )"
        R"("op_id": {}, "profiling_name": {}, )",
        record_id, pg_id_, Quoted(group_.name), Quoted(group_.description), collective ? record.number : 0,
        collective ? 0 : record.number, record.number, Quoted(ProfilingName(record, group_.rank)));
    text +=
        fmt::format(R"("time_created_ns": {}, "time_discovered_started_ns": {}, "time_discovered_completed_ns": {}, )"
                    R"("duration_ms": {}, )",
                    Wall(record.created), has_started ? Wall(record.started) : "null",
                    completed ? Wall(record.ended) : "null", duration);
    text += fmt::format(
        R"("input_sizes": {}, "input_dtypes": {}, "output_sizes": {}, "output_dtypes": {}, "state": "{}", )"
        R"("retired": {}, "timeout_ms": {}, "is_p2p": {}, "frames": [], "rondo": {})",
        shape(sends, sizes.input), types(sends), shape(receives, sizes.output), types(receives), Name(record.state),
        final, record.timeout_ms, !collective, collective ? Collectively(record) : AsMessage(record));
    return text + "}";
  }

 private:
  std::string Wall(TimePoint time) const {
    return fmt::format("{}", (time - origin_.anchor.monotonic + origin_.anchor.wall).count());
  }

  std::string Collectively(const Record& record) const {
    const bool intranode = record.algorithm == Algorithm::kIntranode;
    return fmt::format(R"({{"collective": "{}", "dtype": "{}", "count": {}, "op": {}, "root": {}, "algorithm": "{}", )"
                       R"("transport": {}, "varying": {}, "widened": {}, "in_place": {}, "coarse": {}, {}}})",
                       Name(record.collective), Name(record.type), record.count,
                       Reduces(record.collective) ? Quoted(Name(record.op)) : "null",
                       HasRoot(record.collective) ? fmt::format("{}", record.peer) : "null", Name(record.algorithm),
                       QuotedOrNull(intranode ? "shm" : group_.transports), record.varying, record.widened,
                       record.in_place, record.coarse, HowItEnded(record, group_.failure));
  }

  std::string AsMessage(const Record& record) const {
    const auto peer = static_cast<std::size_t>(record.peer);
    const bool known = record.peer >= 0 && peer < group_.transport_to.size();
    const auto error = std::find_if(group_.message_errors.begin(), group_.message_errors.end(),
                                    [&](const auto& one) { return one.first == record.number; });
    return fmt::format(R"({{"message": "{}", "dtype": "{}", "count": {}, "peer": {}, "tag": {}, "transport": {}, {}}})",
                       record.kind == RecordKind::kSend ? "send" : "recv", Name(record.type), record.count,
                       record.peer == kAnyRank ? "null" : fmt::format("{}", record.peer),
                       record.tag == kAnyTag ? "null" : fmt::format("{}", record.tag),
                       QuotedOrNull(known ? group_.transport_to[peer] : ""),
                       HowItEnded(record, error != group_.message_errors.end() ? error->second : ""));
  }

  std::string HowItEnded(const Record& record, std::string_view error) const {
    const bool failed = record.state == RecordState::kFailed;
    std::string text = fmt::format(R"("time_failed_ns": {})", failed ? Wall(record.ended) : "null");
    if (record.place) {
      if (record.kind == RecordKind::kCollective) text += fmt::format(R"(, "step": {})", record.place->step);
      text += fmt::format(R"(, "bytes_done": {}, "bytes_due": {})", record.place->bytes_done, record.place->bytes_due);
    }
    if (failed) text += fmt::format(R"(, "error": {})", QuotedOrNull(error));
    return text;
  }

  const DumpOrigin& origin_;
  const DumpedGroup& group_;
  const std::size_t pg_id_;
};

Sequence LastStarted(const DumpedGroup& group) {
  Sequence last = group.completed;
  for (const Record& record : group.records)
    if (record.kind == RecordKind::kCollective && record.started != TimePoint{}) last = std::max(last, record.number);
  return last;
}

std::string HeadText(const DumpOrigin& origin) {
  return fmt::format(
      " \"rondo\": {{\"format\": {}, \"job\": {}, \"generation\": {}, \"rank\": {}, \"host\": {}, "
      "\"host_id\": {}, \"pid\": {}, \"reason\": {},\n"
      "  \"clock\": {{\"monotonic_ns\": {}, \"wall_ns\": {}, \"error_ns\": {}, \"coarse_ns\": {}}}",
      kDumpFormat, Quoted(origin.job), origin.generation, origin.rank, Quoted(origin.host), Quoted(origin.host_id),
      origin.pid, Quoted(origin.reason), origin.anchor.monotonic.time_since_epoch().count(), origin.anchor.wall.count(),
      origin.anchor.error.count(), Clock::kCoarse.count());
}

}  // namespace

ClockAnchor AnchorOf(const Clock& clock) {
  ClockAnchor best{.error = Duration::max()};
  for (int look = 0; look < kLooksAtClocks; ++look) {
    const TimePoint before = clock.Now();
    const Duration wall = clock.WallNow();
    const Duration half = (clock.Now() - before) / 2;
    if (half < best.error) best = {.monotonic = before + half, .wall = wall, .error = half};
  }
  return best;
}

std::string DumpText(const DumpOrigin& origin, const std::vector<DumpedGroup>& groups) {
  std::string config, status, ours, entries;
  std::size_t record_id = 0;
  for (std::size_t pg_id = 0; pg_id < groups.size(); ++pg_id) {
    const DumpedGroup& group = groups[pg_id];
    const char* const comma = pg_id == 0 ? "" : ",";
    config += fmt::format(R"({} {}: {{"name": {}, "desc": {}, "ranks": "[{}]"}})", comma, Quoted(group.name),
                          Quoted(group.name), Quoted(group.description), fmt::join(group.ranks, ", "));
    status += fmt::format(
        R"({} "{}": {{"last_enqueued_collective": {}, "last_started_collective": {}, "last_completed_collective": {}}})",
        comma, pg_id, group.issued, LastStarted(group), group.completed);
    ours += fmt::format("{}\n   {{\"name\": {}, \"rank\": {}, \"transport\": {}, \"failure\": {}}}", comma,
                        Quoted(group.name), group.rank, QuotedOrNull(group.transports), QuotedOrNull(group.failure));
    const EntryWriter writer(origin, group, pg_id);
    for (const Record& record : group.records) {
      entries += record_id == 0 ? "\n  " : ",\n  ";
      entries += writer.Write(record, record_id);
      ++record_id;
    }
  }
  return fmt::format(
      "{{\n \"version\": \"{}\",\n{},\n  \"groups\": [{}]}},\n \"pg_config\": {{{} }},\n \"pg_status\": {{{} }},\n"
      " \"entries\": [{}]\n}}\n",
      kC10dVersion, HeadText(origin), ours, config, status, entries);
}

std::string DumpFileName(const DumpOrigin& origin, const std::string& group) {
  std::string name = fmt::format("rondo-{}-g{}-group{}-rank{}.json", origin.job, origin.generation, group, origin.rank);
  std::replace_if(
      name.begin(), name.end(),
      [](char c) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        return !letter && !(c >= '0' && c <= '9') && c != '-' && c != '.';
      },
      '_');
  return name;
}

Result<std::string> WriteDump(const std::string& folder, const std::string& name, const std::string& text) {
  std::string path = fmt::format("{}/{}", folder, name);
  const std::string being_written = path + ".new";
  std::ofstream file(being_written, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return Fail(ErrorCode::kResource, "{} cannot be written: {}", being_written, std::strerror(errno));
  if (std::rename(being_written.c_str(), path.c_str()) != 0)
    return Fail(ErrorCode::kResource, "{} cannot be written: {}", path, std::strerror(errno));
  return path;
}

}  // namespace rondo
