// Tests which ranks continue after ranks were lost, in single cases, with every kind of store. regroup_explored_test.cc
// tests all orders of events.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/regroup.h"
#include "rendezvous/roster_agreement.h"
#include "tests/rendezvous/stores.h"
#include "tests/support/threads.h"

namespace rondo {
namespace roster_test {

using namespace std::chrono_literals;

const SteadyClock kClock;
constexpr char kConfig[] = "version=1\n";

// The roster of `ranks` that run in generation 7, the first generation of the job.
Roster RunningRoster(int ranks) {
  Roster roster{.generation = 7, .last_run = 7, .members = {}, .departed = {}};
  for (Rank rank = 0; rank < ranks; ++rank)
    roster.members.push_back({.instance = "instance" + std::to_string(rank),
                              .host = "host" + std::to_string(rank),
                              .pid = 100 + static_cast<std::uint64_t>(rank),
                              .old_rank = rank});
  return roster;
}

// One remaining rank.
struct Left {
  Rank rank = 0;
  std::vector<Rank> lost = {};
  // The settle time is longer than any test, so that a test that waits for it fails.
  RosterRules rules = {.min_ranks = 1, .max_ranks = 0, .settle = 20s};
  int timeout_ms = 60'000;
};

RosterOptions OptionsOf(const Roster& previous, const Left& left) {
  RosterOptions options;
  options.job = "job";
  options.first_generation = 7;
  options.previous = previous;
  options.rank = left.rank;
  options.cause = left.lost.empty() ? "" : "peer_lost: it died";
  options.lost = [lost = left.lost] { return lost; };
  options.config = kConfig;
  options.rules = left.rules;
  options.deadline = InMs(left.timeout_ms);
  return options;
}

// Runs all ranks at once, each on its own thread with its own handle on the store.
std::vector<Result<Roster>> Agree(StoreWorld& world, const Roster& previous, const std::vector<Left>& all) {
  std::vector<Result<Roster>> results(all.size(), Fail(ErrorCode::kInternal, "did not run"));
  std::vector<std::shared_ptr<Store>> stores;
  for (std::size_t i = 0; i < all.size(); ++i) stores.push_back(world.Open());
  OnThreads(all.size(),
            [&](std::size_t i) { results[i] = AgreeOnRoster(*stores[i], kClock, OptionsOf(previous, all[i])); });
  return results;
}

std::vector<Rank> OldRanks(const Roster& roster) {
  std::vector<Rank> ranks;
  for (const RosterEntry& member : roster.members) ranks.push_back(member.old_rank);
  return ranks;
}

std::string TextOf(const Result<Roster>& result) { return result ? "a roster" : result.error().ToString(); }
bool Says(const Result<Roster>& result, const std::string& text) {
  return TextOf(result).find(text) != std::string::npos;
}
#define CHECK_RESULT_SAYS(result, text) CHECK_MESSAGE(Says(result, text), TextOf(result))

TEST_CASE("Those who are left get one roster, in the order of their old ranks, without waiting for the dead") {
  ForEachStore([](StoreWorld& world) {
    const auto results = Agree(world, RunningRoster(4), {{.rank = 3}, {.rank = 0, .lost = {1}}, {.rank = 2}});
    for (const auto& result : results) {
      REQUIRE_MESSAGE(result.has_value(), TextOf(result));
      CHECK(result->generation == 8);
      CHECK(result->last_run == 7);
      CHECK(OldRanks(*result) == std::vector<Rank>{0, 2, 3});
      REQUIRE(result->departed.size() == 1);
      CHECK(result->departed[0].who.old_rank == 1);
      CHECK(result->departed[0].who.host == "host1");
      CHECK(result->departed[0].why == "was found dead by rank 0: peer_lost: it died");
    }
  });
}

TEST_CASE("If no rank is dead, all ranks continue") {
  MemoryWorld world;
  const auto results = Agree(world, RunningRoster(3), {{.rank = 0}, {.rank = 1}, {.rank = 2}});
  for (const auto& result : results) {
    REQUIRE(result);
    CHECK(OldRanks(*result) == std::vector<Rank>{0, 1, 2});
    CHECK(result->departed.empty());
  }
}

TEST_CASE("A rank whose state is unknown is awaited, and left out after the settle time") {
  ForEachStore([](StoreWorld& world) {
    const RosterRules rules{.min_ranks = 1, .max_ranks = 0, .settle = 300ms};
    const TimePoint began = kClock.Now();
    const auto results = Agree(world, RunningRoster(3), {{.rank = 0, .rules = rules}, {.rank = 2, .rules = rules}});
    CHECK(kClock.Now() - began >= 300ms);
    for (const auto& result : results) {
      REQUIRE_MESSAGE(result.has_value(), TextOf(result));
      CHECK(OldRanks(*result) == std::vector<Rank>{0, 2});
      REQUIRE(result->departed.size() == 1);
      double waited_s = 0;
      REQUIRE(std::sscanf(result->departed[0].why.c_str(), "did not come within %lf s", &waited_s) == 1);
      CHECK(waited_s >= 0.3);  // no upper limit, because the rank may wait longer on a busy machine
    }
  });
}

TEST_CASE("A rank that comes after the roster was written gets the generation that continued without it, and why") {
  ForEachStore([](StoreWorld& world) {
    const Roster previous = RunningRoster(3);
    // A file store is emptied when no process has it open, so this handle keeps it open.
    const auto keeps_it_open = world.Open();
    const RosterRules rules{.min_ranks = 1, .max_ranks = 0, .settle = 100ms};
    REQUIRE(Agree(world, previous, {{.rank = 0, .rules = rules}, {.rank = 1, .rules = rules}})[0]);
    const auto late = Agree(world, previous, {{.rank = 2}})[0];
    REQUIRE(!late);
    CHECK(late.error().code() == ErrorCode::kStale);
    CHECK_RESULT_SAYS(
        late, "generation 8 of job 'job' continues with 2 ranks and without this process (host host2, pid 102, rank 2");
    CHECK_RESULT_SAYS(late, "did not come within");
    CHECK_FALSE(Agree(world, previous, {{.rank = 2}})[0]);
  });
}

TEST_CASE("A rank that others took for dead is in the roster if it came in time") {
  MemoryWorld world;
  const auto results =
      Agree(world, RunningRoster(3), {{.rank = 1}, {.rank = 0, .lost = {2}}, {.rank = 2, .lost = {0}}});
  int in = 0;
  for (const auto& result : results) in += result ? 1 : 0;
  // Ranks 0 and 2 report each other as dead. If a rank wrote its claim before the roster was written, the rank is in
  // the roster; otherwise it gets kStale.
  CHECK(in >= 2);
  for (const auto& result : results) {
    if (result) {
      CHECK(result->members.size() == static_cast<std::size_t>(in));
    } else {
      CHECK(result.error().code() == ErrorCode::kStale);
    }
  }
}

TEST_CASE("A death that is noticed while one waits ends the wait") {
  MemoryWorld world;
  const auto store = world.Open();
  const Roster previous = RunningRoster(2);
  RosterOptions options = OptionsOf(previous, {.rank = 0});
  std::atomic<int> asked{0};
  options.lost = [&] { return ++asked > 2 ? std::vector<Rank>{1} : std::vector<Rank>{}; };
  const auto result = AgreeOnRoster(*store, kClock, options);  // the settle time is far longer than the test
  REQUIRE(result);
  CHECK(OldRanks(*result) == std::vector<Rank>{0});
}

TEST_CASE("Where some run the last roster and one does not, numbers of two generations are not mixed up") {
  // Rank 0 of generation 7 died. The others became ranks 0, 1 and 2 of generation 8, and rank 2 of these failed to make
  // its communicator.
  Roster run = RunningRoster(3);
  run.generation = run.last_run = 8;
  Roster not_run = run;
  not_run.last_run = 7;
  for (RosterEntry& member : not_run.members) ++member.old_rank;
  not_run.departed = {{.who = {.instance = "gone", .old_rank = 0}, .why = "was found dead by rank 1"}};
  // varies which rank writes the roster: one that ran generation 8, or the one that did not
  for (const Rank first : {1, 2}) {
    CAPTURE(first);
    MemoryWorld world;
    std::vector<Result<Roster>> results(3, Fail(ErrorCode::kInternal, "did not run"));
    std::vector<std::thread> threads;
    const auto start = [&](Rank rank) {
      const Left left{.rank = rank, .lost = rank == 2 ? std::vector<Rank>{0} : std::vector<Rank>{2}};
      threads.emplace_back(
          [&results, store = world.Open(), rank, options = OptionsOf(rank == 2 ? not_run : run, left)] {
            results[static_cast<std::size_t>(rank)] = AgreeOnRoster(*store, kClock, options);
          });
    };
    start(first);
    start(3 - first);
    std::this_thread::sleep_for(100ms);
    start(0);
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : results) {
      REQUIRE_MESSAGE(result.has_value(), TextOf(result));
      CHECK(result->last_run == 8);
      CHECK(OldRanks(*result) == std::vector<Rank>{0, 1, 2});
      CHECK(result->departed.empty());
    }
  }
}

TEST_CASE("Fewer than min_ranks never go on: the part that was cut off says so at its deadline") {
  MemoryWorld world;
  const RosterRules majority{.min_ranks = 2, .max_ranks = 0, .settle = 50ms};
  const auto alone =
      Agree(world, RunningRoster(3), {{.rank = 2, .lost = {0}, .rules = majority, .timeout_ms = 300}})[0];
  REQUIRE(!alone);
  CHECK(alone.error().code() == ErrorCode::kRebuildFailed);
  CHECK_RESULT_SAYS(alone, "1 ranks are present to continue after generation 7");
  CHECK_RESULT_SAYS(alone, "at least 2 are needed");
  CHECK_RESULT_SAYS(alone, "rank 0 (host host0, pid 100): was found dead by rank 2");
  CHECK_RESULT_SAYS(alone, "rank 1 (host host1, pid 101): did not come");
  // Rank 2's claim remains in the store, so rank 1 finds it later.
  const auto others = Agree(world, RunningRoster(3), {{.rank = 1, .rules = majority}});
  REQUIRE(others[0]);
  CHECK(OldRanks(*others[0]) == std::vector<Rank>{1, 2});
}

TEST_CASE("Rules that leave no number of ranks are refused") {
  MemoryWorld world;
  for (const RosterRules& rules : {RosterRules{.min_ranks = 0}, RosterRules{.min_ranks = 3, .max_ranks = 2},
                                   RosterRules{.min_ranks = 1, .max_ranks = -1}}) {
    const auto result = Agree(world, RunningRoster(2), {{.rank = 0, .rules = rules}})[0];
    REQUIRE(!result);
    CHECK(result.error().code() == ErrorCode::kInvalidArgument);
  }
}

TEST_CASE("A store that is gone is said") {
  auto server = StartServer();
  const auto store = ClientOf(*server);
  server.reset();
  const auto result = AgreeOnRoster(*store, kClock, OptionsOf(RunningRoster(2), {.rank = 0}));
  REQUIRE(!result);
  CHECK(result.error().code() == ErrorCode::kStoreLost);
}

// ---- joiners ----

JoinerOptions Joiner(const std::string& instance, int timeout_ms = 60'000) {
  JoinerOptions options;
  options.job = "job";
  options.first_generation = 7;
  options.self = {.instance = instance, .host = "new", .pid = 900};
  options.config = kConfig;
  options.deadline = InMs(timeout_ms);
  return options;
}

TEST_CASE("Joiners are admitted behind those who stayed, in the order of their arrival, as far as there is room") {
  ForEachStore([](StoreWorld& world) {
    const auto store = world.Open();
    std::vector<Result<Roster>> admitted(3, Fail(ErrorCode::kInternal, "did not run"));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        admitted[i] = AwaitAdmission(*store, kClock, Joiner("new" + std::to_string(i), i == 2 ? 2000 : 60'000));
      });
      // The joiners begin one after the other, so that their order is fixed.
      REQUIRE(store->WaitFor("rebuild/7/job/joiner/" + std::to_string(i + 1), Soon()));
    }
    const RosterRules rules{.min_ranks = 1, .max_ranks = 4, .settle = 20s};
    const auto results =
        Agree(world, RunningRoster(3), {{.rank = 0, .lost = {1}, .rules = rules}, {.rank = 2, .rules = rules}});
    for (std::thread& thread : threads) thread.join();
    for (const Result<Roster>* result :
         std::initializer_list<const Result<Roster>*>{&results[0], &results[1], &admitted[0], &admitted[1]}) {
      REQUIRE_MESSAGE(result->has_value(), TextOf(*result));
      CHECK(OldRanks(**result) == std::vector<Rank>{0, 2, kNoRank, kNoRank});
      CHECK((*result)->members[2].instance == "new0");
      CHECK((*result)->members[3].instance == "new1");
    }
    REQUIRE(!admitted[2]);
    CHECK(admitted[2].error().code() == ErrorCode::kRendezvousTimeout);
    CHECK_RESULT_SAYS(admitted[2], "no rank of job 'job' admitted this process (host new, pid 900)");
  });
}

TEST_CASE("Without room no joiner is admitted; a joiner that gave up is not admitted later") {
  MemoryWorld world;
  const auto store = world.Open();
  const auto result = AwaitAdmission(*store, kClock, Joiner("gone", 50));
  REQUIRE(!result);
  const RosterRules rules{.min_ranks = 1, .max_ranks = 2, .settle = 50ms};
  const auto roster = Agree(world, RunningRoster(1), {{.rank = 0, .rules = rules}})[0];
  REQUIRE(roster);
  CHECK(OldRanks(*roster) == std::vector<Rank>{0});
}

TEST_CASE("However many joiners the store counts, only the latest are looked at, and one of them is admitted") {
  MemoryWorld world;
  const auto store = world.Open();
  REQUIRE(store->Add("rebuild/7/job/joiners", 1'000'000'000'000, InMs(1000)));
  Result<Roster> admitted = Fail(ErrorCode::kInternal, "did not run");
  std::thread joiner([&] {
    admitted = AwaitAdmission(*world.Open(), kClock,
                              {.job = "job",
                               .first_generation = 7,
                               .self = {.instance = "new", .host = "host", .pid = 1},
                               .config = kConfig,
                               .deadline = InMs(60'000)});
  });
  const auto results = Agree(world, RunningRoster(1), {{.rank = 0, .rules = {.max_ranks = 2, .settle = 20s}}});
  joiner.join();
  REQUIRE_MESSAGE(results[0].has_value(), TextOf(results[0]));
  CHECK(OldRanks(*results[0]) == std::vector<Rank>{0, kNoRank});
  CHECK(admitted.has_value());
}

TEST_CASE("A roster that says it is another generation's is not believed") {
  MemoryWorld world;
  REQUIRE(Agree(world, RunningRoster(1), {{.rank = 0}})[0].has_value());
  const auto store = world.Open();
  const auto record = store->Get("rebuild/7/job/8/roster", InMs(1000));
  REQUIRE((record && *record));
  REQUIRE(store->Set("rebuild/7/job/9/roster", **record, InMs(1000)));
  Roster previous = RunningRoster(1);
  previous.generation = 8;
  const auto results = Agree(world, previous, {{.rank = 0}});
  CHECK_RESULT_SAYS(results[0], "protocol: the roster of generation 9 in store ");
}

TEST_CASE("A joiner with another configuration is refused at once, with both values, and takes no place") {
  MemoryWorld world;
  const auto store = world.Open();
  JoinerOptions other = Joiner("other");
  other.config = "version=2\n";
  Result<Roster> refused = Fail(ErrorCode::kInternal, "did not run");
  std::thread asks([&] { refused = AwaitAdmission(*store, kClock, other); });
  REQUIRE(store->WaitFor("rebuild/7/job/joiner/1", Soon()));
  Result<Roster> admitted = Fail(ErrorCode::kInternal, "did not run");
  std::thread too([&] { admitted = AwaitAdmission(*store, kClock, Joiner("good")); });
  REQUIRE(store->WaitFor("rebuild/7/job/joiner/2", Soon()));
  const RosterRules rules{.min_ranks = 1, .max_ranks = 2, .settle = 20s};
  const auto roster = Agree(world, RunningRoster(1), {{.rank = 0, .rules = rules}})[0];
  asks.join();
  too.join();
  REQUIRE(roster);
  CHECK(roster->members.back().instance == "good");
  CHECK(admitted.has_value());
  REQUIRE(!refused);
  CHECK(refused.error().code() == ErrorCode::kVersionMismatch);
  CHECK_RESULT_SAYS(refused, "version is '2' here and '1' there");
}

// ---- roster and rendezvous together ----

RegroupOptions Regrouping(Rank rank, std::vector<Rank> lost, Duration settle = 20s) {
  RegroupOptions options;
  options.job = "job";
  options.first_generation = 7;
  options.lost = [lost = std::move(lost)] { return lost; };
  options.rules = {.min_ranks = 1, .max_ranks = 0, .settle = settle};
  options.config = kConfig;
  options.make_self = [rank](std::uint64_t generation) -> Result<Member> {
    Member self;
    self.host = "host" + std::to_string(rank);
    self.instance = "of rank " + std::to_string(rank) + " in generation " + std::to_string(generation);
    self.address = self.instance;
    self.config = kConfig;
    return self;
  };
  options.deadline = InMs(60'000);
  return options;
}

TEST_CASE("The ranks of a roster have a rendezvous in its generation, with addresses that are new in it") {
  ForEachStore([](StoreWorld& world) {
    std::vector<std::shared_ptr<Store>> stores{world.Open(), world.Open()};
    OnThreads(2, [&](Rank rank) {  // rank in the new generation
      RosterPlace standing{.roster = RunningRoster(3), .rank = 2 * rank};
      const auto met = Regroup(*stores[static_cast<std::size_t>(rank)], kClock, Regrouping(2 * rank, {1}), standing);
      REQUIRE_MESSAGE(met.has_value(), met.error().ToString());
      CHECK(met->generation == 8);
      CHECK(met->rank == rank);
      REQUIRE(met->members.size() == 2);
      CHECK(met->members[1].address == "of rank 2 in generation 8");
      CHECK(standing.rank == rank);
    });
  });
}

TEST_CASE(
    "A rank that dies between the roster and its rendezvous costs a generation, and the others go on without it") {
  MemoryStore store;
  // Rank 1 claims its place in generation 8 and is in the roster, but does not take part in the rendezvous.
  std::thread dies([&] { CHECK(AgreeOnRoster(store, kClock, OptionsOf(RunningRoster(3), {.rank = 1}))); });
  OnThreads(2, [&](int thread) {
    const Rank rank = 2 * thread;
    RosterPlace standing{.roster = RunningRoster(3), .rank = rank};
    // The other ranks detect the death only when the roster already contains rank 1.
    RegroupOptions options = Regrouping(rank, {});
    options.lost = [&] {
      const auto stands = store.Get("rebuild/7/job/8/roster", Soon());
      return stands && *stands ? std::vector<Rank>{1} : std::vector<Rank>{};
    };
    const auto met = Regroup(store, kClock, options, standing);
    REQUIRE_MESSAGE(met.has_value(), met.error().ToString());
    CHECK(met->generation == 9);
    CHECK(met->members.size() == 2);
    CHECK(OldRanks(standing.roster) == std::vector<Rank>{0, 2});
    CHECK(standing.roster.last_run == 7);
    REQUIRE(standing.roster.departed.size() == 1);
    CHECK(standing.roster.departed[0].who.old_rank == 1);
  });
  dies.join();
}

TEST_CASE("A regrouping that has lost too many ends at its deadline, and a later one goes on from where it ended") {
  MemoryStore store;
  std::thread dies([&] { CHECK(AgreeOnRoster(store, kClock, OptionsOf(RunningRoster(2), {.rank = 1}))); });
  RosterPlace standing{.roster = RunningRoster(2), .rank = 0};
  RegroupOptions options = Regrouping(0, {});
  options.rules.min_ranks = 2;
  options.deadline = InMs(1500);
  const auto met = Regroup(store, kClock, options, standing);
  dies.join();
  REQUIRE(!met);
  CHECK(met.error().code() == ErrorCode::kRebuildFailed);
  CHECK(met.error().message().find("at least 2 are needed") != std::string::npos);
  CHECK(standing.roster.generation == 8);  // the roster of generation 8 remains, although its rendezvous failed
  options.rules = {.min_ranks = 1, .max_ranks = 0, .settle = 100ms};
  options.deadline = InMs(20'000);
  const auto again = Regroup(store, kClock, options, standing);
  REQUIRE_MESSAGE(again.has_value(), again.error().ToString());
  CHECK(again->members.size() == 1);
  CHECK(again->generation == 9);
}

// A joiner, which gets the rules only from the roster.
Result<Membership> JoinAs(Rank number, Store& store, Duration within = 60s) {
  RegroupOptions options = Regrouping(number, {});
  options.rules = {};
  options.deadline = Soon(within);
  RosterPlace standing;
  const std::string instance = "joiner " + std::to_string(number);
  return RegroupAsJoiner(store, kClock, options, {.instance = instance, .host = "there", .pid = 9}, standing);
}

TEST_CASE("A joiner whose rendezvous fails has room for others who wait, as those who admitted it had") {
  MemoryStore store;
  std::array<Result<Membership>, 2> joined;
  std::thread first([&] { joined[0] = JoinAs(8, store); });
  REQUIRE(store.WaitFor("rebuild/7/job/joiner/1", Soon()));
  // Rank 0 admits the first joiner, and dies before the rendezvous.
  const RosterRules rules{.min_ranks = 2, .max_ranks = 2, .settle = 200ms};
  REQUIRE(AgreeOnRoster(store, kClock, OptionsOf(RunningRoster(1), {.rank = 0, .rules = rules})));
  std::thread second([&] { joined[1] = JoinAs(9, store); });
  first.join();
  second.join();
  for (const auto& membership : joined) {
    REQUIRE_MESSAGE(membership.has_value(), membership.error().ToString());
    CHECK(membership->generation == 9);
    CHECK(membership->members.size() == 2);
  }
}

TEST_CASE("A joiner whose rendezvous fails does not go on with fewer ranks than those who admitted it wanted") {
  MemoryStore store;
  Result<Membership> joined;
  std::thread joiner([&] { joined = JoinAs(9, store, 6500ms); });
  REQUIRE(store.WaitFor("rebuild/7/job/joiner/1", Soon()));
  const RosterRules rules{.min_ranks = 2, .max_ranks = 2, .settle = 200ms};
  REQUIRE(AgreeOnRoster(store, kClock, OptionsOf(RunningRoster(1), {.rank = 0, .rules = rules})));
  joiner.join();
  REQUIRE(!joined);
  CHECK(joined.error().code() == ErrorCode::kRebuildFailed);
  CHECK(joined.error().message().find("at least 2 are needed") != std::string::npos);
}

TEST_CASE("A store that is gone fails the regrouping, and the hint says how it could have lived") {
  auto server = StartServer();
  const auto store = ClientOf(*server);
  server.reset();
  RosterPlace standing{.roster = RunningRoster(2), .rank = 0};
  RegroupOptions options = Regrouping(0, {1});
  options.if_store_is_lost = "it lived in rank 0";
  const auto met = Regroup(*store, kClock, options, standing);
  REQUIRE(!met);
  CHECK(met.error().code() == ErrorCode::kRebuildFailed);
  CHECK(met.error().message().find("it lived in rank 0") != std::string::npos);
  CHECK(met.error().details().first_cause.find("store_lost") == 0);
}

}  // namespace roster_test
}  // namespace rondo
