// Tests `rondo trace`: it reads dumps, aligns the clocks of hosts, and reports what is wrong with a job.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "collectives/recorder/dump.h"
#include "tools/trace/dump.h"
#include "tools/trace/events.h"
#include "tools/trace/findings.h"
#include "tools/trace/merge.h"
#include "tools/trace/report.h"

namespace rondo {
namespace trace_test {

using Json = nlohmann::json;
using std::chrono::milliseconds;

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// ---- the format of dumps ----

std::string Written(std::vector<Record> records) {
  DumpedGroup group;
  group.name = "0";
  group.description = "default_pg";
  group.ranks = {0, 1};
  group.rank = 1;
  group.transports = "tcp";
  group.issued = group.completed = 3;
  group.records = std::move(records);
  const DumpOrigin origin{.job = "j",
                          .generation = 4,
                          .rank = 1,
                          .host = "b",
                          .host_id = "id b",
                          .pid = 12,
                          .reason = "call",
                          .anchor = {.monotonic = TimePoint(milliseconds(1000)), .wall = milliseconds(5000)}};
  return DumpText(origin, {group});
}

Record Broadcast(std::uint64_t number) {
  Record record;
  record.state = RecordState::kCompleted;
  record.number = number;
  record.collective = Collective::kBroadcast;
  record.algorithm = Algorithm::kTree;
  record.type = DataType::kInt8;
  record.peer = 1;
  record.count = 3;
  record.created = record.started = TimePoint(milliseconds(1010));
  record.ended = TimePoint(milliseconds(1030));
  return record;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string ErrorOf(const std::string& text) {
  const auto dump = ParseDump("x.json", text);
  return dump ? "ok" : dump.error().message();
}

TEST_CASE("what was dumped is read back") {
  Record receive;
  receive.kind = RecordKind::kReceive;
  receive.number = 1;
  receive.peer = kAnyRank;
  receive.type = DataType::kFloat32;
  receive.count = 7;
  receive.created = TimePoint(milliseconds(1001));
  const auto dump = ParseDump("x.json", Written({receive, Broadcast(3)}));
  REQUIRE(dump);
  CHECK(dump->job == "j");
  CHECK(dump->generation == 4);
  REQUIRE(dump->parts.size() == 1);
  CHECK(dump->parts[0].group == "0");
  CHECK(dump->parts[0].ranks == std::vector<Rank>{0, 1});
  const RankTrace& trace = dump->parts[0].trace;
  CHECK(trace.rank == 1);
  CHECK(trace.host == "b");
  CHECK(trace.file == "x.json");
  CHECK(trace.last_completed == 3);
  CHECK(trace.dumped_at == milliseconds(5000));
  CHECK(trace.clock_offset == milliseconds(4000));
  REQUIRE(trace.collectives.size() == 1);
  CHECK(trace.collectives[0].Text() == "broadcast int8 x 3 from rank 1 by tree");
  CHECK(trace.collectives[0].number == 3);
  CHECK(trace.collectives[0].started == Duration(milliseconds(5010)));
  CHECK(trace.collectives[0].ended == Duration(milliseconds(5030)));
  CHECK(!trace.collectives[0].synchronizes);
  REQUIRE(trace.messages.size() == 1);
  CHECK(trace.messages[0].what == "recv float32 x 7 from any rank with any tag");
  CHECK(trace.messages[0].state == "scheduled");
}

TEST_CASE("operations of a group are printed with the job's ranks, and the group's beside") {
  std::string text = Replaced(Written({Broadcast(1)}), R"("ranks": "[0, 1]")", R"("ranks": "[4, 1]")");
  const auto dump = ParseDump("x.json", text);
  REQUIRE(dump);
  const std::string what = dump->parts.front().trace.collectives.front().what;
  CHECK(what == "broadcast int8 x 3 from rank 1 (rank 1 of group 0)");
}

TEST_CASE("what is no dump is refused with the file and the place") {
  const std::string good = Written({Broadcast(3)});
  CHECK(ErrorOf(good) == "ok");
  CHECK(Has(ErrorOf("{\n \"version\": nothing"), "x.json: parse error at line 2, column"));
  CHECK(Has(ErrorOf(good.substr(0, good.size() / 2)), "x.json: parse error at line"));
  CHECK(ErrorOf(std::string(100, '[')) == "x.json: lists are nested too deeply");
  CHECK(ErrorOf("{}") == "x.json: rondo: key 'rondo' not found");
  CHECK(Has(ErrorOf("[1]"), "x.json: rondo: "));
  CHECK(ErrorOf(Replaced(good, "\"format\": 1", "\"format\": 2")) ==
        "x.json: rondo: format is 2, but this version of rondo reads format 1");
  CHECK(ErrorOf(Replaced(good, "\"completed\"", "\"flying\"")) == "x.json: entries[0]: there is no state 'flying'");
  CHECK(ErrorOf(Replaced(good, "\"pg_id\": 0", "\"pg_id\": 1")) ==
        "x.json: entries[0]: pg_id 1 is not in rondo.groups");
  CHECK(ErrorOf(Replaced(good, "\"collective_seq_id\": 3", "\"collective_seq_id\": -3")) ==
        "x.json: entries[0]: collective_seq_id must be a whole number from 0 on, not -3");
  CHECK(ErrorOf(Replaced(good, "\"[0, 1]\"", "\"[0, 2]\"")) ==
        "x.json: pg_config of 0: rank 1 of the job is not a rank of this group");
  CHECK(ErrorOf(Replaced(good, "\"[0, 1]\"", "\"all of them\"")) ==
        "x.json: pg_config of 0: ranks must be a list of ranks, not 'all of them'");
  CHECK(
      Has(ErrorOf(Replaced(good, "\"wall_ns\": 5000000000", "\"wall_ns\": \"noon\"")), "x.json: rondo.clock: wall_ns"));
}

TEST_CASE("a file that is not there is named, and so is a folder without dumps") {
  const auto missing = ReadDump("/nowhere/x.json");
  REQUIRE(!missing);
  CHECK(missing.error().message() == "/nowhere/x.json: cannot be read: No such file or directory");
  const auto empty = FindDumps({"/proc/self"});
  REQUIRE(!empty);
  CHECK(empty.error().message() == "/proc/self: there is no rondo-*.json in this folder");
}

// ---- hand-written traces: times in milliseconds ----

TracedOperation Barrier(std::uint64_t number, int started, int ended) {
  TracedOperation operation;
  operation.number = number;
  operation.what = "barrier";
  operation.algorithm = "dissemination";
  operation.state = "completed";
  operation.synchronizes = true;
  operation.created = operation.started.emplace(milliseconds(started));
  operation.ended = milliseconds(ended);
  return operation;
}

TracedOperation Waiting(std::uint64_t number, int started) {
  TracedOperation operation = Barrier(number, started, started);
  operation.state = "started";
  operation.ended.reset();
  return operation;
}

TracedOperation Coarse(std::uint64_t number, int at) {
  TracedOperation operation = Barrier(number, at, at);
  operation.coarse = true;
  return operation;
}

struct World {
  std::vector<Rank> ranks;
  std::map<Rank, std::string> hosts;  // hosts of the ranks that are not on host "a"
  std::vector<Dump> dumps;

  explicit World(int size) {
    for (Rank rank = 0; rank < size; ++rank) ranks.push_back(rank);
  }
  RankTrace& Add(Rank rank, std::vector<TracedOperation> collectives, int dumped_at = 10'000) {
    DumpedPart part;
    part.group = "0";
    part.description = "default_pg";
    part.ranks = ranks;
    RankTrace& trace = part.trace;
    trace.rank = rank;
    trace.file = "rank" + std::to_string(rank) + ".json";
    trace.host = hosts.contains(rank) ? hosts.at(rank) : "a";
    trace.host_id = "id of " + trace.host;
    trace.reason = "call";
    trace.dumped_at = milliseconds(dumped_at);
    trace.coarse = milliseconds(20);
    for (const TracedOperation& operation : collectives) {
      trace.last_enqueued = std::max(trace.last_enqueued, operation.number);
      if (operation.started) trace.last_started = std::max(trace.last_started, operation.number);
      if (operation.state == "completed") trace.last_completed = std::max(trace.last_completed, operation.number);
    }
    trace.collectives = std::move(collectives);
    dumps.push_back({.file = trace.file, .job = "j", .generation = 0, .parts = {}});
    dumps.back().parts.push_back(std::move(part));
    return dumps.back().parts.back().trace;
  }
  Trace Merge() const {
    auto trace = MergeDumps(dumps);
    REQUIRE(trace);
    return std::move(*trace);
  }
  GroupFindings Findings() const { return FindingsOf(Merge()).at(0); }
};

TEST_CASE("ranks of one host stand on its monotonic clock, whatever its wall clock did between their dumps") {
  World world(2);
  world.Add(0, {Barrier(1, 100, 200)}).clock_offset = milliseconds(1000);
  // The wall clock was set forward by a minute before the second dump, so that dump's times are a minute ahead.
  world.Add(1, {Barrier(1, 60'150, 60'200)}).clock_offset = milliseconds(61'000);
  const Trace trace = world.Merge();
  CHECK(trace.groups[0].dumped.at(1).collectives[0].started == Duration(milliseconds(150)));
  CHECK(trace.hosts.size() == 1);
}

TEST_CASE("a host whose clock contradicts what happened is put right") {
  World world(2);
  world.hosts[1] = "b";
  world.Add(0, {Barrier(1, 100, 200), Barrier(2, 300, 310)});
  world.Add(1, {Barrier(1, 5190, 5202), Barrier(2, 5301, 5312)});  // 5 s ahead
  const Trace trace = world.Merge();
  REQUIRE(trace.hosts.size() == 2);
  CHECK(trace.hosts[0].error == Duration::zero());
  const HostClock& other = trace.hosts[1];
  CHECK(other.host == "b");
  // -5012 <= shift <= -4991
  CHECK(other.shifted > milliseconds(-5003));
  CHECK(other.shifted < milliseconds(-4990));
  REQUIRE(other.error);
  CHECK(*other.error <= milliseconds(12));
  CHECK(*trace.groups[0].dumped.at(1).collectives[0].started < Duration(milliseconds(210)));
}

TEST_CASE("hosts whose clocks agree with what happened are left alone, and those that never met stay unknown") {
  World world(3);
  world.hosts = {{1, "b"}, {2, "c"}};
  world.Add(0, {Barrier(1, 100, 200)});
  world.Add(1, {Barrier(1, 190, 205)});
  world.Add(2, {});
  const Trace trace = world.Merge();
  CHECK(trace.hosts[1].shifted == Duration::zero());
  CHECK(trace.hosts[1].error == Duration(milliseconds(105)));
  CHECK(!trace.hosts[2].error);
}

TEST_CASE("dumps of two jobs, or of two ideas of a group, do not belong together") {
  World world(2);
  world.Add(0, {});
  world.Add(1, {});
  world.dumps[1].job = "k";
  const auto jobs = MergeDumps(world.dumps);
  REQUIRE(!jobs);
  CHECK(jobs.error().message() == "rank0.json is of job j, generation 0, but rank1.json is of job k, generation 0");
  world.dumps[1].job = "j";
  world.dumps[1].parts[0].ranks = {0, 1, 2};
  const auto groups = MergeDumps(world.dumps);
  REQUIRE(!groups);
  CHECK(groups.error().message() == "group 0 has ranks 0, 1 in rank0.json, but 0, 1, 2 in rank1.json");
}

TEST_CASE("of several dumps by one rank the last counts") {
  World world(1);
  world.Add(0, {Barrier(1, 1, 2)}, /*dumped_at=*/10);
  world.Add(0, {Barrier(1, 1, 2), Barrier(2, 11, 12)}, /*dumped_at=*/20);
  world.Add(0, {}, /*dumped_at=*/5);
  CHECK(world.Merge().groups[0].dumped.at(0).collectives.size() == 2);
}

TEST_CASE("a job that went well is healthy") {
  World world(2);
  world.Add(0, {Barrier(1, 100, 102), Barrier(2, 200, 202)});
  world.Add(1, {Barrier(1, 101, 102), Barrier(2, 199, 202)});
  const GroupFindings findings = world.Findings();
  CHECK(findings.IsHealthy());
  CHECK(findings.compared == 2);
  CHECK(findings.Straggler() == nullptr);
  CHECK(findings.rank_states[0].last_completed == 2);
  CHECK(!findings.rank_states[0].current);
}

TEST_CASE("a rank without records is missing") {
  World world(4);
  world.Add(1, {});
  world.Add(2, {});
  const GroupFindings findings = world.Findings();
  CHECK(findings.missing == std::vector<Rank>{0, 3});
  CHECK(!findings.IsHealthy());
}

TEST_CASE("ranks that called different operations under one number are distinguished") {
  World world(3);
  world.Add(0, {Barrier(1, 1, 2), Waiting(2, 3)});
  world.Add(1, {Barrier(1, 1, 2), Waiting(2, 3)}).collectives[1].what = "broadcast int8 x 3 from rank 0";
  world.Add(2, {Barrier(1, 1, 2), Waiting(2, 3)});
  const GroupFindings findings = world.Findings();
  REQUIRE(findings.mismatches.size() == 1);
  CHECK(findings.mismatches[0].number == 2);
  REQUIRE(findings.mismatches[0].sides.size() == 2);
  CHECK(findings.mismatches[0].sides[0].first == "barrier by dissemination");
  CHECK(findings.mismatches[0].sides[0].second == std::vector<Rank>{0, 2});
  CHECK(findings.mismatches[0].sides[1].second == std::vector<Rank>{1});
  CHECK(!findings.IsHealthy());
}

TEST_CASE("algorithms differ only once both ranks have started") {
  World world(2);
  world.Add(0, {Waiting(1, 3)});
  RankTrace& other = world.Add(1, {Waiting(1, 3)});
  other.collectives[0].algorithm = "intranode";
  CHECK(world.Findings().mismatches.size() == 1);
  other.collectives[0].started.reset();
  other.collectives[0].state = "scheduled";
  CHECK(world.Findings().mismatches.empty());
}

TEST_CASE("who has not entered what others wait in is behind, by as long as they had waited") {
  World world(3);
  world.Add(0, {Barrier(1, 100, 110), Waiting(2, 200)}, 5000);
  world.Add(1, {Barrier(1, 100, 110)}, 5000);
  world.Add(2, {Barrier(1, 100, 110), Waiting(2, 300)}, 5000);
  const GroupFindings findings = world.Findings();
  const TraceRankState& behind = findings.rank_states[1];
  REQUIRE(behind.not_entered);
  CHECK(*behind.not_entered == 2);
  CHECK(behind.behind == milliseconds(4800));
  CHECK(behind.since == Duration(milliseconds(4890)));
  REQUIRE(findings.rank_states[0].current);
  CHECK(findings.rank_states[0].in_current == milliseconds(4800));
  CHECK(!findings.rank_states[0].not_entered);
  CHECK(!findings.IsHealthy());
  CHECK(Has(TraceText(world.Merge(), {findings}), "rank 1: in no operation, after #1"));
  CHECK(Has(TraceText(world.Merge(), {findings}), "BEHIND: it has not entered #2, which other ranks entered 4.800 s"));
}

TEST_CASE("a rank that was dumped earlier than the others went on is not behind") {
  World world(2);
  world.Add(0, {Barrier(1, 100, 110)}, /*dumped_at=*/150);
  world.Add(1, {Barrier(1, 100, 110), Barrier(2, 200, 210), Barrier(3, 300, 310)}, /*dumped_at=*/400);
  CHECK(world.Findings().IsHealthy());
}

TEST_CASE("a rank that comes last again and again is the straggler, with how late it comes") {
  World world(3);
  std::vector<TracedOperation> early, late;
  for (int i = 1; i <= 10; ++i) {
    early.push_back(Barrier(static_cast<std::uint64_t>(i), 100 * i, 100 * i + 50));
    const int by = i == 10 ? 0 : 40;  // rank 1 is on time once
    late.push_back(Barrier(static_cast<std::uint64_t>(i), 100 * i + by, 100 * i + 50));
  }
  world.Add(0, early);
  world.Add(1, late);
  world.Add(2, early);
  const GroupFindings findings = world.Findings();
  CHECK(findings.compared == 10);
  REQUIRE(findings.Straggler() != nullptr);
  CHECK(findings.Straggler()->rank == 1);
  CHECK(findings.Straggler()->median == milliseconds(40));
  CHECK(findings.Straggler()->last == 9);
  CHECK(findings.IsHealthy());  // slow ranks are not a failure
  CHECK(Has(TraceText(world.Merge(), {findings}),
            "straggler: rank 1 was the last rank in 90% of these operations, with a median of 40.00 ms"));
}

TEST_CASE("of what ran at once the time of arrival is when those who waited could leave") {
  World world(2);
  // Rank 1 arrived last, so its barrier ended at once. Its coarse clock reports 192 ms, but rank 0 could not finish
  // before 200 ms.
  world.Add(0, {Barrier(1, 100, 200)});
  world.Add(1, {Coarse(1, 192)});
  const GroupFindings findings = world.Findings();
  REQUIRE(findings.lateness.size() == 2);
  CHECK(findings.lateness[0].rank == 1);
  CHECK(findings.lateness[0].median == milliseconds(100));
  CHECK(findings.lateness[1].median == Duration::zero());
}

TEST_CASE("where all ran at once no rank was late, whatever coarse clocks say") {
  World world(2);
  world.Add(0, {Coarse(1, 100)});
  world.Add(1, {Coarse(1, 104)});
  const GroupFindings findings = world.Findings();
  for (const TraceLateness& one : findings.lateness) CHECK(one.most == Duration::zero());
}

TEST_CASE("failures, and incomplete messages, are reported") {
  World world(1);
  RankTrace& trace = world.Add(0, {}, 5000);
  trace.failure = "peer_lost: rank 1 died";
  TracedOperation message;
  message.number = 3;
  message.what = "recv int8 x 1 from rank 1 with tag 2";
  message.state = "scheduled";
  message.created = milliseconds(2000);
  trace.messages.push_back(message);
  const GroupFindings findings = world.Findings();
  CHECK(!findings.IsHealthy());
  REQUIRE(findings.messages.size() == 1);
  CHECK(findings.messages[0].since == milliseconds(3000));
  const std::string text = TraceText(world.Merge(), {findings});
  CHECK(Has(text, "rank 0: peer_lost: rank 1 died"));
  CHECK(Has(text, "rank 0: recv int8 x 1 from rank 1 with tag 2, scheduled for 3.000 s"));
  CHECK(Has(text, "1 failed"));
}

TEST_CASE("the timeline has a slice for every collective of every rank, on one axis") {
  World world(2);
  world.Add(0, {Barrier(1, 1100, 1200), Waiting(2, 1300)}, 2000);
  world.Add(1, {Barrier(1, 1150, 1200)}, 2000);
  const Json json = Json::parse(TraceEvents(world.Merge()));
  std::vector<std::string> slices;
  for (const Json& event : json.at("traceEvents"))
    if (event.at("ph").get<std::string>() == "X")
      slices.push_back(event.at("name").get<std::string>() + " of " + event.at("pid").dump() + " at " +
                       event.at("ts").dump() + " for " + event.at("dur").dump());
  CHECK(slices == std::vector<std::string>{"barrier #1 of 0 at 0.0 for 100000.0",
                                           "barrier #2 (started) of 0 at 200000.0 for 700000.0",
                                           "barrier #1 of 1 at 50000.0 for 50000.0"});
}

TEST_CASE("the report for programs says the same as the one for people") {
  World world(3);
  world.Add(0, {Barrier(1, 100, 110), Waiting(2, 200)}, 5000);
  world.Add(1, {Barrier(1, 100, 110)}, 5000);
  const Trace trace = world.Merge();
  const Json json = Json::parse(TraceJson(trace, FindingsOf(trace)));
  const Json& group = json.at("groups").at(0);
  CHECK(json.at("healthy").dump() == "false");
  CHECK(group.at("missing").dump() == "[2]");
  CHECK(group.at("rank_states").at(1).at("not_entered").dump() == "2");
  CHECK(group.at("rank_states").at(0).at("in").at("operation").get<std::string>() == "barrier by dissemination");
  CHECK(group.at("straggler").is_null());
}

}  // namespace trace_test
}  // namespace rondo
