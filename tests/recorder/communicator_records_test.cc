// Tests what a communicator's flight recorder records about operations that succeed, wait or fail, and about groups and
// messages.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <latch>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.h"
#include "tests/recorder/json.h"
#include "tests/support/ranks.h"
#include "tests/support/shm_ranks.h"
#include "transport/fault/faulty_transport.h"

namespace rondo {
namespace communicator_records_test {

using test::Json;
using test::Text;

constexpr DataType kInt = DataType::kInt32;

Json DumpOf(const Communicator& communicator) { return Json::parse(communicator.DumpRecords()); }

// The collectives of a dump, in the order of their numbers.
std::vector<Json> Collectives(const Json& dump) {
  std::vector<Json> entries;
  for (const Json& entry : dump.at("entries"))
    if (!entry.at("is_p2p").get<bool>()) entries.push_back(entry);
  return entries;
}
std::vector<Json> Messages(const Json& dump) {
  std::vector<Json> entries;
  for (const Json& entry : dump.at("entries"))
    if (entry.at("is_p2p").get<bool>()) entries.push_back(entry);
  return entries;
}

std::int64_t Ns(const Json& time) { return time.get<std::int64_t>(); }

Status Sum(Communicator& communicator, std::vector<std::int32_t>& values) {
  return communicator.AllReduce(values.data(), values.data(), values.size(), kInt, ReduceOp::kSum);
}

// A folder that is removed after the test.
class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / ("rondo-" + name + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path() const { return path_.string(); }
  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator(path_)) ++count;
    return count;
  }
  Json Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path_ / name).rdbuf();
    return Json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  }

 private:
  std::filesystem::path path_;
};

TEST_CASE("operations that went well are there in order, with what they were and when they ran") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<std::int32_t> values(1000, 1);
    CHECK(communicator.Barrier());
    CHECK(Sum(communicator, values));
    CHECK(communicator.Broadcast(values.data(), values.data(), 10, kInt, 1));
    const Json dump = DumpOf(communicator);
    const std::vector<Json> entries = Collectives(dump);
    REQUIRE(entries.size() == 3);
    const std::array<std::string, 3> names{"rondo:barrier", "rondo:all_reduce", "rondo:broadcast"};
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Json& entry = entries[i];
      CHECK(Text(entry["profiling_name"]) == names[i]);
      CHECK(entry["collective_seq_id"].get<std::size_t>() == i + 1);
      CHECK(Text(entry["state"]) == "completed");
      CHECK(Ns(entry["time_created_ns"]) <= Ns(entry["time_discovered_started_ns"]));
      CHECK(Ns(entry["time_discovered_started_ns"]) <= Ns(entry["time_discovered_completed_ns"]));
      CHECK(Text(entry["timeout_ms"]) == "20000");
      CHECK(Text(entry["rondo"]["transport"]) == "inproc");
    }
    CHECK(Text(entries[1]["rondo"]["op"]) == "sum");
    CHECK(Text(entries[1]["rondo"]["count"]) == "1000");
    CHECK(Text(entries[1]["rondo"]["in_place"]) == "true");
    CHECK(Text(entries[2]["rondo"]["root"]) == "1");
    CHECK(Text(dump["pg_status"]["0"]["last_completed_collective"]) == "3");
    CHECK(Text(dump["pg_config"]["0"]["ranks"]) == "[0, 1]");
    CHECK(communicator.Close());
  });
}

TEST_CASE("an operation that waits for another rank is started, and the one behind it scheduled") {
  InprocNetwork network(2);
  std::latch seen(1);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<std::int32_t> values(10, 1);
    if (communicator.rank() == 1) seen.wait();
    Work first = communicator.AllReduceAsync(values.data(), values.data(), values.size(), kInt, ReduceOp::kSum);
    Work second = communicator.BarrierAsync();
    if (communicator.rank() == 0) {
      Json dump;
      do {
        std::this_thread::yield();
        dump = DumpOf(communicator);
      } while (Text(Collectives(dump).at(0)["state"]) == "scheduled");
      const std::vector<Json> entries = Collectives(dump);
      REQUIRE(entries.size() == 2);
      CHECK(Text(entries[0]["state"]) == "started");
      CHECK(Text(entries[0]["time_discovered_completed_ns"]) == "null");
      CHECK(Text(entries[1]["state"]) == "scheduled");
      CHECK(Text(entries[1]["time_discovered_started_ns"]) == "null");
      CHECK(Text(dump["pg_status"]["0"]) ==
            R"({"last_completed_collective":0,"last_enqueued_collective":2,"last_started_collective":1})");
      seen.count_down();
    }
    CHECK(first.Wait());
    CHECK(second.Wait());
    CHECK(communicator.Close());
  });
}

TEST_CASE("when a rank dies, the others' operation failed, and each leaves its records once, in a file of its own") {
  const Folder folder("records-of-a-death-");
  InprocNetwork network(3);
  std::latch issued(2);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        std::vector<std::int32_t> values(1000, 1);
        CHECK(Sum(communicator, values));
        if (communicator.rank() == 1) {
          issued.wait();
          return network.Kill(1);
        }
        Work work = communicator.AllReduceAsync(values.data(), values.data(), values.size(), kInt, ReduceOp::kSum);
        issued.count_down();
        CHECK(!work.Wait());
        const Json last = Collectives(DumpOf(communicator)).back();
        CHECK(Text(last["collective_seq_id"]) == "2");
        CHECK(Text(last["state"]) == "failed");
        CHECK(Text(last["time_discovered_completed_ns"]) == "null");
        CHECK(Text(last["rondo"]["error"]).find("peer_lost") == 0);
      },
      [&](CommunicatorOptions& options) {
        options.record_dir = folder.path();
        options.job = "death";
        options.generation = 2;
      });
  for (const int rank : {0, 2}) {
    const Json dump = folder.Read("rondo-death-g2-group0-rank" + std::to_string(rank) + ".json");
    CAPTURE(rank);
    REQUIRE(dump.is_object());
    CHECK(Text(dump["rondo"]["reason"]) == "error");
    CHECK(Text(dump["rondo"]["rank"]) == std::to_string(rank));
    CHECK(Text(dump["rondo"]["host"]) == "host" + std::to_string(rank));
    CHECK(Text(dump["rondo"]["groups"][0]["failure"]).find("caused by rank 1") != std::string::npos);
  }
}

TEST_CASE("records of damage say whose frame it was, and of results that differ, which operation's and whose") {
  struct Case {
    bool checksums;  // true: frames have checksums; false: ranks compare results
    std::string failed;
    std::string error;
  };
  const Case cases[] = {
      {true, "rondo:broadcast", "corrupt: a frame from rank 0 arrived damaged on lane 0"},
      {false, "rondo:all_gather", "corrupt: the ranks got different results; checksums: rank 1 "},
  };
  for (const Case& c : cases) {
    CAPTURE(c.failed);
    InprocNetwork network(3);
    const auto injector =
        std::make_shared<fault::FaultInjector>(*fault::ParseFaultPlan("corrupt@lane(0->1):bytes=100,bit=0"));
    OnRanks(
        network,
        [&](Communicator& communicator) {
          std::vector<std::int32_t> values(100, 1);
          const Status status = communicator.Broadcast(values.data(), values.data(), values.size(), kInt, 0,
                                                       {.algorithm = Algorithm::kDirect});
          CHECK_FALSE((status && communicator.Barrier()));  // the broadcast may have completed on a rank that only sent
          const Json dump = DumpOf(communicator);
          const std::string failure = Text(dump["rondo"]["groups"][0]["failure"]);
          CHECK(failure.find(c.error) == 0);
          CHECK(failure.find("broadcast int32 x 100") != std::string::npos);
          if (communicator.rank() != 1) return;
          for (const Json& entry : Collectives(dump)) {
            if (Text(entry["state"]) == "completed") continue;
            CHECK(Text(entry["profiling_name"]) == c.failed);
            CHECK(Text(entry["state"]) == "failed");
            CHECK(Text(entry["rondo"]["error"]).find(c.error) == 0);
          }
        },
        [&](CommunicatorOptions& options) {
          options.transport = *fault::MakeFaultyTransport(options.transport, injector);
          options.checksums = c.checksums;
          options.compare_results = !c.checksums;
        });
    CHECK(injector->fired(0).count() == 1);
  }
}

TEST_CASE("an operation that timed out failed after its timeout") {
  InprocNetwork network(2);
  std::latch timed_out(1);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        if (communicator.rank() == 1) return timed_out.wait();
        CHECK(!communicator.Barrier());
        const Json entry = Collectives(DumpOf(communicator)).at(0);
        CHECK(Text(entry["state"]) == "failed");
        CHECK(Text(entry["rondo"]["error"]).find("timeout: #1 barrier") == 0);
        // The time is from a coarse clock, so it may be too early by one tick.
        CHECK(Ns(entry["rondo"]["time_failed_ns"]) - Ns(entry["time_created_ns"]) >= 30'000'000);
        timed_out.count_down();
      },
      [](CommunicatorOptions& options) { options.timeout = std::chrono::milliseconds(50); });
}

TEST_CASE("abort fails what is under way and what waits behind it") {
  InprocNetwork network(2);
  std::latch aborted(1);
  OnRanks(network, [&](Communicator& communicator) {
    if (communicator.rank() == 1) return aborted.wait();
    Work first = communicator.BarrierAsync();
    Work second = communicator.BarrierAsync();
    communicator.Abort("enough");
    CHECK(!first.Wait());
    CHECK(!second.Wait());
    const std::vector<Json> entries = Collectives(DumpOf(communicator));
    REQUIRE(entries.size() == 2);
    for (const Json& entry : entries) {
      CHECK(Text(entry["state"]) == "failed");
      CHECK(Text(entry["rondo"]["error"]).find("enough") != std::string::npos);
    }
    aborted.count_down();
  });
}

TEST_CASE("groups have recorders of their own, names that all their ranks share, and are in their parent's dump") {
  InprocNetwork network(4);
  std::mutex mutex;
  std::array<std::string, 4> names;
  OnRanks(network, [&](Communicator& communicator) {
    auto child = communicator.Split(communicator.rank() % 2, -communicator.rank());
    REQUIRE(child);
    CHECK((*child)->Barrier());
    auto grandchild = (*child)->Split(7, 0);
    REQUIRE(grandchild);
    CHECK((*grandchild)->Barrier());
    const Json dump = DumpOf(communicator);
    CHECK(dump["pg_config"].size() == 3);
    CHECK(Text(dump["pg_config"]["0"]["desc"]) == "default_pg");
    const std::string own = communicator.rank() % 2 == 0 ? "0.1.0" : "0.1.1";
    CHECK(Text(dump["pg_config"][own]["ranks"]) == (communicator.rank() % 2 == 0 ? "[2, 0]" : "[3, 1]"));
    CHECK(Text(dump["pg_config"][own + ".1.7"]["desc"]) == "split 1 of " + own + ", color 7");
    const Json last = Collectives(dump).back();
    CHECK(Text(last["pg_id"]) == "2");
    {
      const std::lock_guard lock(mutex);
      names[static_cast<std::size_t>(communicator.rank())] = Text(last["process_group"][0]);
    }
    CHECK(DumpOf(**child)["pg_config"].size() == 2);
    CHECK((*grandchild)->Close());
    CHECK((*child)->Close());
    CHECK(communicator.Close());
  });
  CHECK(names[0] == names[2]);
  CHECK(names[1] == names[3]);
  CHECK(names[0] != names[1]);
}

TEST_CASE("messages are recorded with the ranks that they reached; one that fails alone says why") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<std::int32_t> values(100, 1);
    const Rank other = 1 - communicator.rank();
    if (communicator.rank() == 0) {
      CHECK(communicator.Send(values.data(), 60, kInt, other, 5));
      CHECK(!communicator.Recv(values.data(), 1, kInt, other, 9, {.timeout = std::chrono::milliseconds(20)}));
      const std::vector<Json> entries = Messages(DumpOf(communicator));
      REQUIRE(entries.size() == 2);
      CHECK(Text(entries[0]["profiling_name"]) == "rondo:send 0->1");
      CHECK(Text(entries[0]["state"]) == "completed");
      CHECK(Text(entries[0]["rondo"]["tag"]) == "5");
      CHECK(Text(entries[0]["rondo"]["bytes_done"]) == "240");
      CHECK(Text(entries[1]["profiling_name"]) == "rondo:recv 0<-1");
      CHECK(Text(entries[1]["state"]) == "failed");
      CHECK(Text(entries[1]["p2p_seq_id"]) == "2");
      CHECK(Text(entries[1]["rondo"]["error"]).find("timeout: ") == 0);
    } else {
      CHECK(communicator.Recv(values.data(), 100, kInt, kAnyRank, kAnyTag));
      const std::vector<Json> entries = Messages(DumpOf(communicator));
      REQUIRE(entries.size() == 1);
      CHECK(Text(entries[0]["profiling_name"]) == "rondo:recv 1<-0");
      CHECK(Text(entries[0]["state"]) == "completed");
      CHECK(Text(entries[0]["rondo"]["tag"]) == "5");
      CHECK(Text(entries[0]["rondo"]["count"]) == "100");       // the size of the receive buffer
      CHECK(Text(entries[0]["rondo"]["bytes_done"]) == "240");  // the received bytes
    }
    CHECK(communicator.Barrier());
    CHECK(communicator.Close());
  });
}

TEST_CASE("the last operations stay, however many there were") {
  InprocNetwork network(2);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        for (int i = 0; i < 100; ++i) CHECK(communicator.Barrier());
        const std::vector<Json> entries = Collectives(DumpOf(communicator));
        REQUIRE(entries.size() == 8);
        CHECK(Text(entries.front()["collective_seq_id"]) == "93");
        CHECK(Text(entries.back()["collective_seq_id"]) == "100");
        // More operations are pending than the recorder can hold. Those for which there is no room are recorded when
        // they start.
        std::vector<Work> works;
        for (int i = 0; i < 50; ++i) works.push_back(communicator.BarrierAsync());
        for (Work& work : works) CHECK(work.Wait());
        CHECK(Text(Collectives(DumpOf(communicator)).back()["collective_seq_id"]) == "150");
        CHECK(communicator.Close());
      },
      [](CommunicatorOptions& options) { options.recorded_operations = 5; });
}

TEST_CASE("nothing is recorded where nothing was asked for, and a folder that was not given is an error") {
  InprocNetwork network(2);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        CHECK(communicator.Barrier());
        const Json dump = DumpOf(communicator);
        CHECK(dump["entries"].empty());
        CHECK(dump["rondo"]["groups"].empty());
        const auto written = communicator.WriteRecords();
        REQUIRE(!written);
        CHECK(written.error().code() == ErrorCode::kInvalidArgument);
        CHECK(communicator.Close());
      },
      [](CommunicatorOptions& options) { options.recorded_operations = 0; });
}

TEST_CASE("records are written on request, and say who asked") {
  const Folder folder("records-by-call-");
  InprocNetwork network(2);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        CHECK(communicator.Barrier());
        CHECK(communicator.WriteRecords());
        CHECK(communicator.Barrier());
        const auto written = communicator.WriteRecords("signal");
        REQUIRE(written);
        CHECK(*written ==
              folder.path() + "/rondo-default-g0-group0-rank" + std::to_string(communicator.rank()) + ".json");
        CHECK(communicator.Close());
      },
      [&](CommunicatorOptions& options) { options.record_dir = folder.path(); });
  CHECK(folder.files() == 2);
  const Json dump = folder.Read("rondo-default-g0-group0-rank1.json");
  CHECK(Text(dump["rondo"]["reason"]) == "signal");
  CHECK(dump["entries"].size() == 2);
}

TEST_CASE(
    "on the intranode path operations that run at once are recorded too, and short ones among them have coarse times") {
  test::OnShmRanks({.ranks = 2}, [&](Communicator& communicator) {
    std::vector<std::int32_t> small(1, 1), large(100'000, 1);
    for (int i = 0; i < 300; ++i) CHECK(Sum(communicator, small));
    CHECK(Sum(communicator, large));
    const std::vector<Json> entries = Collectives(DumpOf(communicator));
    REQUIRE(entries.size() == 301);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Json& entry = entries[i];
      const Json& ours = entry["rondo"];
      const bool right = entry["collective_seq_id"].get<std::size_t>() == i + 1 &&
                         Text(entry["state"]) == "completed" && Text(ours["algorithm"]) == "intranode" &&
                         Text(ours["transport"]) == "shm" &&
                         Ns(entry["time_created_ns"]) <= Ns(entry["time_discovered_started_ns"]) &&
                         Ns(entry["time_discovered_started_ns"]) <= Ns(entry["time_discovered_completed_ns"]);
      wrong += right ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(Text(entries.back()["rondo"]["coarse"]) == "false");
    CHECK(communicator.Close());
  });
}

TEST_CASE("records may be read by any thread while operations run") {
  const auto read_along = [](Communicator& communicator) {
    std::atomic<bool> done{false};
    std::atomic<int> dumps{0}, bad{0};
    std::thread reader([&] {
      do {
        bad += Json::parse(communicator.DumpRecords(), nullptr, false).is_discarded() ? 1 : 0;
        ++dumps;
      } while (!done.load());
    });
    std::vector<std::int32_t> values(10, 1);
    const Rank other = 1 - communicator.rank();
    for (int i = 0; i < 200; ++i) {
      CHECK(Sum(communicator, values));
      CHECK(communicator.SendRecv({values.data(), 5, other, 1}, {values.data() + 5, 5, other, 1}, kInt));
    }
    done.store(true);
    reader.join();
    CHECK(dumps.load() > 0);
    CHECK(bad.load() == 0);
    CHECK(communicator.Close());
  };
  const auto few = [](CommunicatorOptions& options) { options.recorded_operations = 16; };
  InprocNetwork network(2);
  OnRanks(network, read_along, few);
  test::OnShmRanks({.ranks = 2, .adjust = few}, read_along);
}

}  // namespace communicator_records_test
}  // namespace rondo
