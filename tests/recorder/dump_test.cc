// The text of a dump: JSON with the field names of c10d's recorder. Fields that only Rondo has are separate.
#include "collectives/recorder/dump.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/recorder/json.h"

namespace rondo {
namespace dump_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Json;
using test::Text;

TimePoint At(int ms) { return TimePoint(milliseconds(ms)); }

DumpOrigin Origin() {
  return {.job = "a job/of mine",
          .generation = 3,
          .rank = 6,
          .host = "host \"b\"",
          .host_id = "boot 1",
          .pid = 4711,
          .reason = "error",
          .anchor = {.monotonic = At(1000), .wall = seconds(1'700'000'000), .error = std::chrono::nanoseconds(40)}};
}

DumpedGroup Group(std::vector<Record> records) {
  DumpedGroup group;
  group.name = "0.1.2";
  group.description = "split 1 of 0, color 2";
  group.ranks = {4, 6};
  group.rank = 1;
  group.transports = "tcp";
  group.transport_to = {"tcp", "self"};
  group.issued = 9;
  group.completed = 7;
  group.records = std::move(records);
  return group;
}

Record Completed() {
  Record record;
  record.state = RecordState::kCompleted;
  record.number = 7;
  record.collective = Collective::kAllGather;
  record.algorithm = Algorithm::kBruck;
  record.type = DataType::kBfloat16;
  record.peer = 0;
  record.count = 12;
  record.timeout_ms = 60'000;
  record.created = At(2000);
  record.started = At(2001);
  record.ended = At(2003);
  return record;
}

Json EntryOf(const Record& record) { return Json::parse(DumpText(Origin(), {Group({record})})).at("entries").at(0); }

std::set<std::string> KeysOf(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

TEST_CASE("a dump has the parts of c10d's and one of ours") {
  const Json dump = Json::parse(DumpText(Origin(), {Group({Completed()})}));
  CHECK(KeysOf(dump) == std::set<std::string>{"version", "rondo", "pg_config", "pg_status", "entries"});
  CHECK(Text(dump["version"]) == "2.10");
  const Json& config = dump["pg_config"]["0.1.2"];
  CHECK(Text(config["name"]) == "0.1.2");
  CHECK(Text(config["desc"]) == "split 1 of 0, color 2");
  CHECK(Text(config["ranks"]) == "[4, 6]");
  const Json& status = dump["pg_status"]["0"];
  CHECK(Text(status["last_enqueued_collective"]) == "9");
  CHECK(Text(status["last_started_collective"]) == "7");
  CHECK(Text(status["last_completed_collective"]) == "7");
  const Json& ours = dump["rondo"];
  CHECK(Text(ours["job"]) == "a job/of mine");
  CHECK(Text(ours["generation"]) == "3");
  CHECK(Text(ours["rank"]) == "6");
  CHECK(Text(ours["host"]) == "host \"b\"");
  CHECK(Text(ours["pid"]) == "4711");
  CHECK(Text(ours["reason"]) == "error");
  CHECK(Text(ours["clock"]["monotonic_ns"]) == "1000000000");
  CHECK(Text(ours["clock"]["wall_ns"]) == "1700000000000000000");
  CHECK(Text(ours["clock"]["error_ns"]) == "40");
  CHECK(Text(ours["groups"][0]["rank"]) == "1");
  CHECK(Text(ours["groups"][0]["transport"]) == "tcp");
  CHECK(Text(ours["groups"][0]["failure"]) == "null");
}

TEST_CASE("an entry has c10d's fields, all of them, and ours under one name") {
  const Json entry = EntryOf(Completed());
  CHECK(KeysOf(entry) == std::set<std::string>{"record_id",
                                               "pg_id",
                                               "process_group",
                                               "collective_seq_id",
                                               "p2p_seq_id",
                                               "op_id",
                                               "profiling_name",
                                               "time_created_ns",
                                               "time_discovered_started_ns",
                                               "time_discovered_completed_ns",
                                               "duration_ms",
                                               "input_sizes",
                                               "input_dtypes",
                                               "output_sizes",
                                               "output_dtypes",
                                               "state",
                                               "retired",
                                               "timeout_ms",
                                               "is_p2p",
                                               "frames",
                                               "rondo"});
  CHECK(Text(entry["process_group"]) == R"(["0.1.2","split 1 of 0, color 2"])");
  CHECK(Text(entry["collective_seq_id"]) == "7");
  CHECK(Text(entry["p2p_seq_id"]) == "0");
  CHECK(Text(entry["profiling_name"]) == "rondo:all_gather");
  CHECK(Text(entry["input_sizes"]) == "[[12]]");
  CHECK(Text(entry["output_sizes"]) == "[[24]]");
  CHECK(Text(entry["input_dtypes"]) == R"(["BFloat16"])");
  CHECK(Text(entry["state"]) == "completed");
  CHECK(Text(entry["retired"]) == "true");
  CHECK(Text(entry["is_p2p"]) == "false");
  CHECK(Text(entry["timeout_ms"]) == "60000");
  CHECK(Text(entry["duration_ms"]) == "2");
  CHECK(Text(entry["rondo"]["algorithm"]) == "bruck");
  CHECK(Text(entry["rondo"]["dtype"]) == "bfloat16");
  CHECK(Text(entry["rondo"]["transport"]) == "tcp");
  CHECK(Text(entry["rondo"]["op"]) == "null");
  CHECK(Text(entry["rondo"]["root"]) == "null");
}

TEST_CASE("times are those of the wall clock, by way of the anchor") {
  const Json entry = EntryOf(Completed());
  CHECK(Text(entry["time_created_ns"]) == "1700000001000000000");
  CHECK(Text(entry["time_discovered_started_ns"]) == "1700000001001000000");
  CHECK(Text(entry["time_discovered_completed_ns"]) == "1700000001003000000");
}

TEST_CASE("what has not happened is null") {
  Record record = Completed();
  record.state = RecordState::kScheduled;
  record.started = record.ended = TimePoint{};
  const Json entry = EntryOf(record);
  CHECK(Text(entry["time_discovered_started_ns"]) == "null");
  CHECK(Text(entry["time_discovered_completed_ns"]) == "null");
  CHECK(Text(entry["duration_ms"]) == "null");
  CHECK(Text(entry["retired"]) == "false");
}

TEST_CASE("an operation that failed says when, where and why, and is not completed") {
  Record record = Completed();
  record.state = RecordState::kFailed;
  record.place = {5, 100, 400};
  DumpedGroup group = Group({record});
  group.failure = "peer_lost: rank 0 died";
  const Json entry = Json::parse(DumpText(Origin(), {group})).at("entries").at(0);
  CHECK(Text(entry["state"]) == "failed");
  CHECK(Text(entry["retired"]) == "true");
  CHECK(Text(entry["time_discovered_completed_ns"]) == "null");
  CHECK(Text(entry["rondo"]["time_failed_ns"]) == "1700000001003000000");
  CHECK(Text(entry["rondo"]["step"]) == "5");
  CHECK(Text(entry["rondo"]["bytes_done"]) == "100");
  CHECK(Text(entry["rondo"]["bytes_due"]) == "400");
  CHECK(Text(entry["rondo"]["error"]) == "peer_lost: rank 0 died");
}

TEST_CASE("sizes are those of the buffers as c10d counts them, for every collective") {
  struct Expected {
    Collective collective;
    std::string input, output;
  };
  for (const Expected& one : {
           Expected{Collective::kAllReduce, "[[12]]", "[[12]]"},
           Expected{Collective::kReduce, "[[12]]", "[[12]]"},
           Expected{Collective::kBroadcast, "[[12]]", "[[12]]"},
           Expected{Collective::kAllGather, "[[12]]", "[[24]]"},
           Expected{Collective::kGather, "[[12]]", "[[24]]"},
           Expected{Collective::kReduceScatter, "[[24]]", "[[12]]"},
           Expected{Collective::kScatter, "[[24]]", "[[12]]"},
           Expected{Collective::kAllToAll, "[[24]]", "[[24]]"},
           Expected{Collective::kBarrier, "[]", "[]"},
       }) {
    Record record = Completed();
    record.collective = one.collective;
    const Json entry = EntryOf(record);
    CAPTURE(Text(entry["profiling_name"]));
    CHECK(Text(entry["input_sizes"]) == one.input);
    CHECK(Text(entry["output_sizes"]) == one.output);
  }
  Record varying = Completed();
  varying.varying = true;
  varying.input_elements = 3;
  varying.output_elements = 50;
  const Json entry = EntryOf(varying);
  CHECK(Text(entry["profiling_name"]) == "rondo:all_gather_v");
  CHECK(Text(entry["input_sizes"]) == "[[3]]");
  CHECK(Text(entry["output_sizes"]) == "[[50]]");
}

TEST_CASE("messages are named and numbered as c10d does with them") {
  Record record = Completed();
  record.kind = RecordKind::kSend;
  record.peer = 0;
  record.tag = 9;
  Json entry = EntryOf(record);
  CHECK(Text(entry["profiling_name"]) == "rondo:send 1->0");
  CHECK(Text(entry["is_p2p"]) == "true");
  CHECK(Text(entry["p2p_seq_id"]) == "7");
  CHECK(Text(entry["collective_seq_id"]) == "0");
  CHECK(Text(entry["input_sizes"]) == "[[12]]");
  CHECK(Text(entry["output_sizes"]) == "[]");
  CHECK(Text(entry["rondo"]["message"]) == "send");
  CHECK(Text(entry["rondo"]["tag"]) == "9");
  CHECK(Text(entry["rondo"]["transport"]) == "tcp");
  record.kind = RecordKind::kReceive;
  record.peer = kAnyRank;
  record.tag = kAnyTag;
  entry = EntryOf(record);
  CHECK(Text(entry["profiling_name"]) == "rondo:recv 1<-any");
  CHECK(Text(entry["rondo"]["peer"]) == "null");
  CHECK(Text(entry["rondo"]["tag"]) == "null");
  CHECK(Text(entry["rondo"]["transport"]) == "null");
}

TEST_CASE("the operation that runs counts as started, whatever was completed") {
  Record record = Completed();
  record.number = 8;
  record.state = RecordState::kStarted;
  record.ended = TimePoint{};
  const Json dump = Json::parse(DumpText(Origin(), {Group({record})}));
  CHECK(Text(dump["pg_status"]["0"]["last_started_collective"]) == "8");
}

TEST_CASE("names and errors that are no UTF-8 do not make a dump unreadable") {
  DumpOrigin origin = Origin();
  origin.host = "caf\xe9";
  DumpedGroup group = Group({Completed()});
  group.failure = "\xff\xfe \n \"";
  const Json dump = Json::parse(DumpText(origin, {group}), nullptr, /*allow_exceptions=*/false);
  CHECK(!dump.is_discarded());
}

TEST_CASE("both clocks are read at one moment, or the distance is said") {
  class Slow final : public Clock {
   public:
    TimePoint Now() const override { return TimePoint(now_ += milliseconds(2)); }
    Duration WallNow() const override { return seconds(100) + (now_ += milliseconds(4)); }

   private:
    mutable Duration now_{};
  };
  const ClockAnchor anchor = AnchorOf(Slow());
  CHECK(anchor.error == milliseconds(3));  // half of the 6 ms between the two reads of the monotonic clock
  CHECK(anchor.monotonic.time_since_epoch() - (anchor.wall - seconds(100)) <= anchor.error);
  CHECK((anchor.wall - seconds(100)) - anchor.monotonic.time_since_epoch() <= anchor.error);
}

TEST_CASE("a dump's file is named by job, generation, group and rank, and by nothing that a path could be made of") {
  CHECK(DumpFileName(Origin(), "0.1.2") == "rondo-a_job_of_mine-g3-group0.1.2-rank6.json");
  DumpOrigin hostile = Origin();
  hostile.job = "../../etc";
  CHECK(DumpFileName(hostile, "0").find('/') == std::string::npos);
}

TEST_CASE("a dump replaces the one before it, and a folder that is not there is an error that names the file") {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("rondo-dump-test-" + std::to_string(::getpid()))).string();
  REQUIRE(std::filesystem::create_directory(folder));
  CHECK(WriteDump(folder, "a.json", "first and longer"));
  const auto path = WriteDump(folder, "a.json", "second");
  REQUIRE(path);
  CHECK(*path == folder + "/a.json");
  std::ostringstream text;
  text << std::ifstream(*path).rdbuf();
  CHECK(text.str() == "second");
  std::filesystem::remove_all(folder);
  const auto failed = WriteDump(folder, "a.json", "third");
  REQUIRE(!failed);
  CHECK(failed.error().code() == ErrorCode::kResource);
  CHECK(failed.error().message() == folder + "/a.json.new cannot be written: No such file or directory");
}

}  // namespace dump_test
}  // namespace rondo
