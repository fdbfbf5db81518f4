#include "tools/trace/dump.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "collectives/recorder/dump.h"
#include "tools/common/json.h"

namespace rondo {
namespace {

constexpr std::array<std::string_view, 4> kStates{"scheduled", "started", "completed", "failed"};
constexpr std::array<std::string_view, 5> kSynchronizing{"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                         "barrier"};

constexpr std::string_view kGroupOfAll = "0";  // the name of a communicator that is not the result of Split

template <typename Names>
bool IsOneOf(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Duration TimeAt(const Json& object, const char* key) { return Duration(WholeNumberAt(object, key)); }

std::optional<Duration> TimeOrNull(const Json& object, const char* key) {
  return object.at(key).is_null() ? std::nullopt : std::optional(TimeAt(object, key));
}

std::optional<std::uint64_t> CountIfThere(const Json& object, const char* key) {
  return object.contains(key) ? std::optional(CountAt(object, key)) : std::nullopt;
}

// Describes a collective as OperationDescriptor::ToString does: "all_reduce float32 x 1000 sum", "broadcast int8 x 3
// from rank 2", "barrier".
std::string InWords(const Json& ours, const RankFrame* frame) {
  const std::string collective = TextAt(ours, "collective");
  const bool varying = ours.at("varying").get<bool>();
  std::string text = collective + (varying ? "_v" : "");
  if (collective == "barrier") return text;
  text += " " + TextAt(ours, "dtype");
  const std::uint64_t count = CountAt(ours, "count");
  if (!varying || count != 0) text += fmt::format(" x {}", count);
  if (const std::string op = TextOrNull(ours, "op"); !op.empty()) text += " " + op;
  if (!ours.at("root").is_null()) {
    const bool from_root = collective == "broadcast" || collective == "scatter";
    text +=
        fmt::format(" {} {}", from_root ? "from" : "to", NameOfRank(frame, static_cast<Rank>(CountAt(ours, "root"))));
  }
  if (ours.at("widened").get<bool>()) text += " in a wider type";
  return text;
}

// Describes a message: "send float32 x 10 to rank 3 with tag 7", "recv float32 x 10 from any rank with any tag".
std::string MessageInWords(const Json& ours, const RankFrame* frame) {
  const bool sends = TextAt(ours, "message") == "send";
  const std::string peer =
      ours.at("peer").is_null() ? "any rank" : NameOfRank(frame, static_cast<Rank>(CountAt(ours, "peer")));
  const std::string tag = ours.at("tag").is_null() ? "any tag" : fmt::format("tag {}", CountAt(ours, "tag"));
  return fmt::format("{} {} x {} {} {} with {}", sends ? "send" : "recv", TextAt(ours, "dtype"), CountAt(ours, "count"),
                     sends ? "to" : "from", peer, tag);
}

TracedOperation OperationFrom(const Json& entry, const RankFrame* frame) {
  TracedOperation operation;
  const Json& ours = entry.at("rondo");
  const bool message = entry.at("is_p2p").get<bool>();
  operation.number = CountAt(entry, message ? "p2p_seq_id" : "collective_seq_id");
  operation.state = TextAt(entry, "state");
  if (!IsOneOf(kStates, operation.state)) ThrowUnfit(fmt::format("there is no state '{}'", operation.state));
  operation.created = TimeAt(entry, "time_created_ns");
  operation.started = TimeOrNull(entry, "time_discovered_started_ns");
  operation.ended = TimeOrNull(entry, "time_discovered_completed_ns");
  if (operation.state == "failed") operation.ended = TimeAt(ours, "time_failed_ns");
  if (operation.state == "completed" && (!operation.started || !operation.ended))
    ThrowUnfit("a completed operation lacks the times of its start and end");
  if (message) {
    operation.what = MessageInWords(ours, frame);
  } else {
    operation.what = InWords(ours, frame);
    operation.algorithm = TextAt(ours, "algorithm");
    operation.coarse = ours.at("coarse").get<bool>();
    operation.synchronizes = IsOneOf(kSynchronizing, TextAt(ours, "collective"));
    operation.step = CountIfThere(ours, "step");
  }
  operation.bytes_done = CountIfThere(ours, "bytes_done");
  operation.bytes_due = CountIfThere(ours, "bytes_due");
  operation.error = TextOrNull(ours, "error");
  return operation;
}

std::vector<Rank> RanksFrom(const std::string& list) {
  const Json parsed = Json::parse(list, nullptr, /*allow_exceptions=*/false);
  const auto is_rank = [](const Json& one) { return one.is_number_unsigned(); };
  if (!parsed.is_array() || parsed.empty() || !std::all_of(parsed.begin(), parsed.end(), is_rank))
    ThrowUnfit(fmt::format("ranks must be a list of ranks, not '{}'", list));
  return parsed.get<std::vector<Rank>>();
}

// Whether each element of the list is equal to its index.
bool AreTheirPlaces(const std::vector<Rank>& ranks) {
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] != static_cast<Rank>(i)) return false;
  return true;
}

// Parses the whole dump except its entries. Sets `where` to the part that is being parsed, for error messages.
Dump HeadFrom(const Json& json, std::string& where) {
  Dump dump;
  where = "rondo";
  const Json& ours = json.at("rondo");
  if (const std::uint64_t format = CountAt(ours, "format"); format != std::uint64_t{kDumpFormat})
    ThrowUnfit(fmt::format("format is {}, but this version of rondo reads format {}", format, kDumpFormat));
  dump.job = TextAt(ours, "job");
  dump.generation = CountAt(ours, "generation");
  RankTrace origin;
  origin.rank = static_cast<Rank>(CountAt(ours, "rank"));
  origin.host = TextAt(ours, "host");
  origin.host_id = TextAt(ours, "host_id");
  origin.pid = CountAt(ours, "pid");
  origin.reason = TextAt(ours, "reason");
  where = "rondo.clock";
  const Json& clock = ours.at("clock");
  origin.dumped_at = TimeAt(clock, "wall_ns");
  origin.clock_offset = origin.dumped_at - TimeAt(clock, "monotonic_ns");
  origin.clock_error = TimeAt(clock, "error_ns");
  origin.coarse = TimeAt(clock, "coarse_ns");
  const Json& groups = ours.at("groups");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    where = fmt::format("rondo.groups[{}]", i);
    const Json& group = groups.at(i);
    DumpedPart part;
    part.trace = origin;
    part.group = TextAt(group, "name");
    part.trace.transport = TextOrNull(group, "transport");
    part.trace.failure = TextOrNull(group, "failure");
    where = fmt::format("pg_config of {}", part.group);
    const Json& config = json.at("pg_config").at(part.group);
    part.description = TextAt(config, "desc");
    part.ranks = RanksFrom(TextAt(config, "ranks"));
    if (std::find(part.ranks.begin(), part.ranks.end(), origin.rank) == part.ranks.end())
      ThrowUnfit(fmt::format("rank {} of the job is not a rank of this group", origin.rank));
    if (part.group != kGroupOfAll || !AreTheirPlaces(part.ranks))
      part.frame = std::make_shared<const RankFrame>(RankFrame{part.group, part.ranks});
    where = fmt::format("pg_status of {}", i);
    const Json& status = json.at("pg_status").at(std::to_string(i));
    part.trace.last_enqueued = CountAt(status, "last_enqueued_collective");
    part.trace.last_started = CountAt(status, "last_started_collective");
    part.trace.last_completed = CountAt(status, "last_completed_collective");
    dump.parts.push_back(std::move(part));
  }
  return dump;
}

Dump DumpFrom(const Json& json, std::string& where) {
  Dump dump = HeadFrom(json, where);
  const Json& entries = json.at("entries");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    where = fmt::format("entries[{}]", i);
    const Json& entry = entries.at(i);
    const std::uint64_t group = CountAt(entry, "pg_id");
    if (group >= dump.parts.size()) ThrowUnfit(fmt::format("pg_id {} is not in rondo.groups", group));
    RankTrace& trace = dump.parts[group].trace;
    (entry.at("is_p2p").get<bool>() ? trace.messages : trace.collectives)
        .push_back(OperationFrom(entry, dump.parts[group].frame.get()));
  }
  const auto by_number = [](const TracedOperation& a, const TracedOperation& b) { return a.number < b.number; };
  for (DumpedPart& part : dump.parts) {
    std::sort(part.trace.collectives.begin(), part.trace.collectives.end(), by_number);
    std::sort(part.trace.messages.begin(), part.trace.messages.end(), by_number);
  }
  return dump;
}

}  // namespace

Result<Dump> ParseDump(const std::string& file, std::string_view text) {
  std::string where;
  try {
    Dump dump = DumpFrom(ParseJson(text), where);
    dump.file = file;
    for (DumpedPart& part : dump.parts) part.trace.file = file;
    return dump;
  } catch (const Json::exception& error) {
    const std::string place = where.empty() ? "" : where + ": ";  // JSON syntax errors already contain line and column
    return Fail(ErrorCode::kInvalidArgument, "{}: {}{}", file, place, JsonReason(error));
  }
}

Result<Dump> ReadDump(const std::string& file) {
  const std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();  // a folder can be opened but not read
  if (!stream || !text) return Fail(ErrorCode::kInvalidArgument, "{}: cannot be read: {}", file, std::strerror(errno));
  return ParseDump(file, text.str());
}

Result<std::vector<std::string>> FindDumps(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  for (const std::string& argument : arguments) {
    std::error_code failed;
    if (!std::filesystem::is_directory(argument, failed)) {
      files.push_back(argument);
      continue;
    }
    std::vector<std::string> found;
    for (std::filesystem::directory_iterator at(argument, failed), end; !failed && at != end; at.increment(failed)) {
      const std::string name = at->path().filename().string();
      if (name.rfind("rondo-", 0) == 0 && at->path().extension() == ".json") found.push_back(at->path().string());
    }
    if (failed) return Fail(ErrorCode::kInvalidArgument, "{}: cannot be read: {}", argument, failed.message());
    if (found.empty())
      return Fail(ErrorCode::kInvalidArgument, "{}: there is no rondo-*.json in this folder", argument);
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace rondo
