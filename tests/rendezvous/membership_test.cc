// Tests single cases of the rendezvous. A case defines which processes join, and which result each of them gets.
#include "rendezvous/membership.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/rendezvous/stores.h"
#include "tests/support/fault_row.h"
#include "tests/support/threads.h"

namespace rondo {
namespace membership_test {

const SteadyClock kClock;

// A process that takes part in the rendezvous.
struct Process {
  std::optional<Rank> rank;
  int world_size = 0;
  std::string host;
  std::uint64_t pid = 0;
  std::string config = "version=1\nalgorithms=abc\n";
  std::string instance;
  int timeout_ms = 20'000;
  std::uint64_t generation = 0;
  std::string job = "job";
};

// Process `number` of a world, on a host of its own.
Process Number(int number, int world_size, bool with_rank = true) {
  Process process;
  if (with_rank) process.rank = number;
  process.world_size = world_size;
  process.host = "host" + std::to_string(number);
  process.pid = 100 + static_cast<std::uint64_t>(number);
  return process;
}

JoinOptions OptionsOf(const Process& process) {
  JoinOptions options;
  options.rank = process.rank;
  options.world_size = process.world_size;
  options.job = process.job;
  options.generation = process.generation;
  options.deadline = InMs(process.timeout_ms);
  options.self.host = process.host;
  options.self.host_id = "boot-" + process.host;
  options.self.pid = process.pid;
  options.self.instance = process.instance.empty() ? process.host + std::to_string(process.pid) : process.instance;
  options.self.address = "address of " + process.host;
  options.self.config = process.config;
  return options;
}

// Runs all processes at once, each on its own thread with its own handle on the store. No process joins before all have
// opened the store, because a file store that no process has open is emptied by the next process that opens it.
std::vector<Result<Membership>> JoinAll(StoreWorld& world, const std::vector<Process>& processes) {
  std::vector<Result<Membership>> results(processes.size(), Fail(ErrorCode::kInternal, "did not run"));
  std::barrier<> opened(static_cast<std::ptrdiff_t>(processes.size()));
  OnThreads(processes.size(), [&](std::size_t i) {
    const auto store = world.Open();
    opened.arrive_and_wait();
    results[i] = Join(*store, kClock, OptionsOf(processes[i]));
  });
  return results;
}

bool Says(const Error& error, const std::string& text) { return error.ToString().find(text) != std::string::npos; }

#define CHECK_SAYS(error, text) CHECK_MESSAGE(Says(error, text), (error).ToString())

TEST_CASE("After a rendezvous every rank has the same members") {
  ForEachStore([](StoreWorld& world) {
    const auto results = JoinAll(world, {Number(2, 4), Number(0, 4), Number(3, 4), Number(1, 4)});
    const std::vector<Rank> ranks{2, 0, 3, 1};
    for (std::size_t i = 0; i < results.size(); ++i) {
      REQUIRE_MESSAGE(results[i].has_value(), results[i].error().ToString());
      CHECK(results[i]->rank == ranks[i]);
      CHECK(results[i]->job == "job");
      REQUIRE(results[i]->members.size() == 4);
      for (Rank rank = 0; rank < 4; ++rank) {
        const Member& member = results[i]->members[static_cast<std::size_t>(rank)];
        CHECK(member.rank == rank);
        CHECK(member.host == "host" + std::to_string(rank));
        CHECK(member.host_id == "boot-host" + std::to_string(rank));
        CHECK(member.pid == 100 + static_cast<std::uint64_t>(rank));
        CHECK(member.address == "address of host" + std::to_string(rank));
        CHECK(member.config == "version=1\nalgorithms=abc\n");
      }
    }
  });
}

TEST_CASE("A world of one succeeds alone") {
  MemoryWorld world;
  const auto results = JoinAll(world, {Number(0, 1)});
  REQUIRE(results[0]);
  CHECK(results[0]->members.size() == 1);
}

TEST_CASE("Ranks that were not given come from the order of arrival, each once") {
  ForEachStore([](StoreWorld& world) {
    const auto results = JoinAll(world, {Number(0, 3, false), Number(1, 3, false), Number(2, 3, false)});
    std::vector<Rank> ranks;
    for (std::size_t i = 0; i < results.size(); ++i) {
      REQUIRE_MESSAGE(results[i].has_value(), results[i].error().ToString());
      ranks.push_back(results[i]->rank);
      CHECK(results[i]->members[static_cast<std::size_t>(results[i]->rank)].pid == 100 + i);
    }
    std::sort(ranks.begin(), ranks.end());
    CHECK(ranks == std::vector<Rank>{0, 1, 2});
  });
}

TEST_CASE("Two processes that claim one rank: all get the error, with both hosts and pids") {
  ForEachStore([](StoreWorld& world) {
    Process twin = Number(1, 3);
    twin.host = "twin";
    twin.pid = 777;
    const auto results = JoinAll(world, {Number(0, 3), Number(1, 3), twin});
    for (const auto& result : results) {
      REQUIRE(!result);
      CHECK(result.error().code() == ErrorCode::kDuplicateRank);
      CHECK(result.error().culprit() == 1);
      CHECK_SAYS(result.error(), "host host1, pid 101");
      CHECK_SAYS(result.error(), "host twin, pid 777");
      StateFault(15, 1, result.error(), {.path = "store"});
    }
  });
}

TEST_CASE("A rank that died in the rendezvous and was started again is a duplicate: it is another instance") {
  MemoryStore store;
  const Process first = Number(1, 2);
  std::thread waiting([&] {
    const auto result = Join(store, kClock, OptionsOf(first));
    REQUIRE(!result);
    CHECK(result.error().code() == ErrorCode::kDuplicateRank);
    CHECK_SAYS(result.error(), "pid 999");
  });
  REQUIRE(store.WaitFor("rondo/job/0/member/1", Soon()));
  Process restarted = first;
  restarted.pid = 999;
  const auto result = Join(store, kClock, OptionsOf(restarted));
  waiting.join();
  REQUIRE(!result);
  CHECK(result.error().code() == ErrorCode::kDuplicateRank);
  CHECK_SAYS(result.error(), "pid 101");
  CHECK_SAYS(result.error(), "pid 999");
  StateFault(17, 1, result.error(), {.path = "store"});
}

TEST_CASE("A process that comes after a rendezvous has failed gets the reason") {
  MemoryWorld world;
  Process wrong = Number(1, 2);
  wrong.world_size = 3;
  Process hasty = Number(0, 2);
  hasty.timeout_ms = 5000;
  for (const auto& result : JoinAll(world, {hasty, wrong}))
    CHECK(result.error().code() == ErrorCode::kWorldSizeMismatch);
  const auto late = JoinAll(world, {Number(1, 2)});
  REQUIRE(!late[0]);
  CHECK(late[0].error().code() == ErrorCode::kWorldSizeMismatch);
}

TEST_CASE("A process that joins again after it got the outcome gets the same") {
  MemoryWorld world;
  const auto first = JoinAll(world, {Number(0, 2), Number(1, 2)});
  REQUIRE(first[1]);
  const auto again = JoinAll(world, {Number(1, 2)});
  REQUIRE_MESSAGE(again[0].has_value(), again[0].error().ToString());
  CHECK(again[0]->members.size() == 2);
}

TEST_CASE("Different world sizes: all get the error at once, with both numbers") {
  ForEachStore([](StoreWorld& world) {
    const TimePoint before = kClock.Now();
    const auto results = JoinAll(world, {Number(0, 4), Number(1, 4), Number(2, 3)});
    CHECK(kClock.Now() - before < std::chrono::seconds(10));
    for (const auto& result : results) {
      REQUIRE(!result);
      CHECK(result.error().code() == ErrorCode::kWorldSizeMismatch);
      CHECK_SAYS(result.error(), "world size");
      CHECK_SAYS(result.error(), "4");
      CHECK_SAYS(result.error(), "3");
      CHECK_SAYS(result.error(), "host2, pid 102");
      StateFault(16, 1, result.error(), {.path = "store", .took = kClock.Now() - before});
    }
  });
}

TEST_CASE("One process more than the world has places, ranks by arrival: it learns that there is no place") {
  MemoryWorld world;
  for (const auto& result : JoinAll(world, {Number(0, 2, false), Number(1, 2, false)})) REQUIRE(result);
  const auto late = JoinAll(world, {Number(2, 2, false)});
  REQUIRE(!late[0]);
  CHECK(late[0].error().code() == ErrorCode::kStale);
  CHECK_SAYS(late[0].error(), "one process too many");
}

TEST_CASE("Different configurations: all get the field and both values") {
  ForEachStore([](StoreWorld& world) {
    Process other = Number(1, 2);
    other.config = "version=2\nalgorithms=abc\nframe=64\n";
    for (const auto& result : JoinAll(world, {Number(0, 2), other})) {
      REQUIRE(!result);
      CHECK(result.error().code() == ErrorCode::kVersionMismatch);
      CHECK_SAYS(result.error(), "version is");
      CHECK_SAYS(result.error(), "'1'");
      CHECK_SAYS(result.error(), "'2'");
      CHECK_SAYS(result.error(), "frame");
      CHECK(!Says(result.error(), "algorithms"));
      StateFault(19, 1, result.error(), {.path = "store"});
      CHECK_SAYS(result.error(), "host0, pid 100");
      CHECK_SAYS(result.error(), "host1, pid 101");
    }
  });
}

TEST_CASE("Given ranks and ranks by arrival do not mix") {
  MemoryWorld world;
  for (const auto& result : JoinAll(world, {Number(0, 2), Number(1, 2, false)})) {
    REQUIRE(!result);
    CHECK(result.error().code() == ErrorCode::kVersionMismatch);
    CHECK_SAYS(result.error(), "order of arrival");
  }
}

TEST_CASE("At the deadline all processes that came get the absent ranks and the hosts of the present ones") {
  ForEachStore([](StoreWorld& world) {
    std::vector<Process> processes{Number(0, 6), Number(2, 6), Number(5, 6)};
    for (Process& process : processes) process.timeout_ms = 400;
    const TimePoint before = kClock.Now();
    const auto results = JoinAll(world, processes);
    CHECK(kClock.Now() - before < std::chrono::seconds(10));
    for (const auto& result : results) {
      REQUIRE(!result);
      CHECK(result.error().code() == ErrorCode::kRendezvousTimeout);
      CHECK(result.error().culprit() == 1);
      CHECK_SAYS(result.error(), "3 of 6 ranks");
      StateFault(16, 1, result.error(), {.path = "store", .took = kClock.Now() - before});
      CHECK_SAYS(result.error(), "absent: 1, 3..4");
      CHECK_SAYS(result.error(), "0 (host host0, pid 100)");
      CHECK_SAYS(result.error(), "2 (host host2, pid 102)");
      CHECK_SAYS(result.error(), "5 (host host5, pid 105)");
    }
  });
}

TEST_CASE("When rank 0 is the absent one, the others say so") {
  MemoryWorld world;
  Process alone = Number(1, 2);
  alone.timeout_ms = 200;
  const auto results = JoinAll(world, {alone});
  REQUIRE(!results[0]);
  CHECK(results[0].error().code() == ErrorCode::kRendezvousTimeout);
  CHECK_SAYS(results[0].error(), "absent: 0");
}

TEST_CASE("The first process that times out ends the rendezvous for all others") {
  MemoryWorld world;
  Process hasty = Number(1, 3);
  hasty.timeout_ms = 200;
  const TimePoint before = kClock.Now();
  for (const auto& result : JoinAll(world, {Number(0, 3), hasty})) {
    REQUIRE(!result);
    CHECK(result.error().code() == ErrorCode::kRendezvousTimeout);
    CHECK_SAYS(result.error(), "absent: 2");
  }
  CHECK(kClock.Now() - before < std::chrono::seconds(10));
}

TEST_CASE("A process that waited alone gets a hint; one that was not alone does not") {
  ForEachStore([](StoreWorld& world) {
    JoinOptions alone = OptionsOf(Number(0, 2));
    alone.deadline = InMs(300);
    alone.if_alone = "perhaps it is no rank";
    const auto store = world.Open();
    const auto result = Join(*store, kClock, alone);
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == ErrorCode::kRendezvousTimeout);
    CHECK_SAYS(result.error(), "absent: 1");
    CHECK_SAYS(result.error(), ". perhaps it is no rank");
  });
  MemoryWorld world;
  std::array<std::string, 2> texts;
  OnThreads(2, [&](int rank) {
    JoinOptions options = OptionsOf(Number(rank, 3));
    options.deadline = InMs(500);
    options.if_alone = "perhaps it is no rank";
    const auto store = world.Open();
    const auto result = Join(*store, kClock, options);
    if (!result) texts[static_cast<std::size_t>(rank)] = result.error().ToString();
  });
  for (const std::string& text : texts) {
    CHECK(text.find("absent: 2") != std::string::npos);
    CHECK(text.find("perhaps") == std::string::npos);
  }
}

TEST_CASE("A process that cannot take part ends the rendezvous for all others, with its name and its reason") {
  ForEachStore([](StoreWorld& world) {
    const Error why(ErrorCode::kResource, "no descriptor is left");
    std::vector<Result<Membership>> results(2, Fail(ErrorCode::kInternal, "did not run"));
    std::barrier<> opened(3);
    Threads threads(results.size(), [&](std::size_t i) {  // ranks 0 and 2
      const auto store = world.Open();
      opened.arrive_and_wait();
      results[i] = Join(*store, kClock, OptionsOf(Number(static_cast<int>(2 * i), 3)));
    });
    const auto store = world.Open();
    opened.arrive_and_wait();
    const Error own = AbortRendezvous(*store, kClock, OptionsOf(Number(1, 3)), why);
    threads.Join();
    CHECK(own.code() == ErrorCode::kResource);
    for (const auto& result : results) {
      REQUIRE_FALSE(result);
      CHECK(result.error().code() == ErrorCode::kResource);
      CHECK(result.error().culprit() == 1);
      CHECK(result.error().details().host == "host1");
      CHECK_SAYS(result.error(), "rank 1, host host1, pid 101 cannot take part: no descriptor is left");
    }
  });
}

TEST_CASE("A store that holds the rendezvous of an earlier run is refused as stale; a new generation is not") {
  ForEachStore([](StoreWorld& world) {
    const auto keep = world.Open();  // a file store loses its content when no process has it open
    for (const auto& result : JoinAll(world, {Number(0, 2), Number(1, 2)})) REQUIRE(result);

    std::vector<Process> next{Number(0, 2), Number(1, 2)};
    for (Process& process : next) process.pid += 1000;
    for (const auto& result : JoinAll(world, next)) {
      REQUIRE(!result);
      CHECK(result.error().code() == ErrorCode::kStale);
      CHECK_SAYS(result.error(), "generation 0");
      CHECK_SAYS(result.error(), keep->Describe());
      StateFault(17, 1, result.error(), {.path = "store"});
    }
    for (Process& process : next) process.generation = 1;
    for (const auto& result : JoinAll(world, next)) CHECK(result);
  });
}

TEST_CASE("Different jobs are separate in one store") {
  MemoryWorld world;
  std::vector<Process> processes{Number(0, 2), Number(1, 2), Number(0, 2), Number(1, 2)};
  for (std::size_t i = 2; i < 4; ++i) {
    processes[i].job = "other";
    processes[i].host = "elsewhere";
  }
  const auto results = JoinAll(world, processes);
  for (const auto& result : results) REQUIRE(result);
  CHECK(results[0]->members[1].host == "host1");
  CHECK(results[2]->members[1].host == "elsewhere");
}

TEST_CASE("Impossible arguments are refused before anything is written") {
  MemoryWorld world;
  const auto code_of = [&](const Process& process) { return JoinAll(world, {process})[0].error().code(); };
  CHECK(code_of(Number(4, 4)) == ErrorCode::kInvalidArgument);
  CHECK(code_of(Number(-1, 4)) == ErrorCode::kInvalidArgument);
  CHECK(code_of(Number(0, 0)) == ErrorCode::kInvalidArgument);
  CHECK(code_of(Number(0, kMaxWorldSize + 1)) == ErrorCode::kInvalidArgument);
  Process large = Number(0, 1);
  large.config = std::string(100'000, 'c');
  CHECK(code_of(large) == ErrorCode::kInvalidArgument);
  CHECK(*world.Open()->Get("rondo/job/0/founding", Soon()) == std::nullopt);
}

TEST_CASE("A table of members too large for one value comes in parts") {
  MemoryStore store;
  constexpr int kWorld = 140;
  std::atomic<int> complete{0};
  OnThreads(kWorld, [&](int rank) {
    JoinOptions options = OptionsOf(Number(rank, kWorld));
    options.self.address = std::string(4096, static_cast<char>('a' + rank % 26));
    const auto result = Join(store, kClock, options);
    REQUIRE_MESSAGE(result.has_value(), result.error().ToString());
    for (Rank other = 0; other < kWorld; other += 23) {
      REQUIRE(result->members[static_cast<std::size_t>(other)].address ==
              std::string(4096, static_cast<char>('a' + other % 26)));
    }
    ++complete;
  });
  CHECK(complete == kWorld);
  CHECK(store.Get("rondo/job/0/table/1", Soon())->has_value());
}

TEST_CASE("512 ranks have a rendezvous over one TCP store within seconds") {
  const auto server = StartServer();
  constexpr int kWorld = 512;
  std::atomic<int> complete{0};
  const TimePoint before = kClock.Now();
  OnThreads(kWorld, [&](int rank) {
    const auto store = ClientOf(*server);
    const auto result = Join(*store, kClock, OptionsOf(Number(rank, kWorld)));
    REQUIRE_MESSAGE(result.has_value(), result.error().ToString());
    if (result->members.size() == kWorld && result->members[7].host == "host7") ++complete;
  });
  const Duration took = kClock.Now() - before;
  CHECK(complete == kWorld);
  CHECK(took < std::chrono::seconds(20));
  MESSAGE("512 ranks: rendezvous in " << std::chrono::duration<double>(took).count() << " s");
  CHECK(server->stats().unknown == 0);
}

TEST_CASE("When the store dies during the rendezvous, all processes report the store, at once") {
  auto server = StartServer();
  const auto first = ClientOf(*server);
  const auto second = ClientOf(*server);
  const std::string address = server->address();
  Threads threads(2, [&](int thread) {
    const auto result = Join(thread == 0 ? *first : *second, kClock, OptionsOf(Number(1 + thread, 3)));
    REQUIRE(!result);
    CHECK(result.error().code() == ErrorCode::kStoreLost);
    CHECK_SAYS(result.error(), address);
  });
  const auto watching = ClientOf(*server);
  REQUIRE(watching->WaitFor("rondo/job/0/member/1", Soon()));
  REQUIRE(watching->WaitFor("rondo/job/0/member/2", Soon()));
  server.reset();
  threads.Join();
}

TEST_CASE("A count of arrivals that no rendezvous has is an error, never a rank") {
  MemoryWorld world;
  const auto store = world.Open();
  for (const char* count : {"-1", "-7", "-9223372036854775808"}) {
    CAPTURE(count);
    REQUIRE(store->Set("rondo/job/0/arrivals", count, Soon()));
    const auto results = JoinAll(world, {Number(0, 2, false)});
    REQUIRE(!results[0]);
    CHECK(results[0].error().code() == ErrorCode::kProtocol);
    CHECK_SAYS(results[0].error(), "the count of arrivals of the rendezvous");
  }
}

TEST_CASE("A table in more parts than a world has room for is refused before they are fetched") {
  MemoryWorld world;
  const auto store = world.Open();
  REQUIRE(store->Set("rondo/job/0/outcome", std::string("\x01\xff\xff\xff\xff", 5), Soon()));
  const auto results = JoinAll(world, {Number(1, 2)});
  REQUIRE(!results[0]);
  CHECK(results[0].error().code() == ErrorCode::kProtocol);
  CHECK_SAYS(results[0].error(), "the outcome of the rendezvous");
}

}  // namespace membership_test
}  // namespace rondo
