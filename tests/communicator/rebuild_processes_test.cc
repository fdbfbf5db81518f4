// Ranks as processes that are killed, stopped and replaced. The remaining ranks continue and compute right sums, over
// sockets and shared memory, with every kind of store. No process outside the job can join them.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/access.h"
#include "base/clock.h"
#include "collectives/connect.h"
#include "rendezvous/tcp_store_server.h"
#include "tests/communicator/process_ranks.h"
#include "tests/support/fault_row.h"
#include "tests/support/own_places.h"
#include "tests/support/status_text.h"

namespace rondo {
namespace rebuild_processes_test {

using namespace std::chrono_literals;

// The store that the ranks of a test use for the rendezvous.
class Place {
 public:
  enum class Kind { kFile, kOutside, kRankZero };  // a file, a store in a separate process, or a store in rank 0

  // `token`: "" means that there is no token.
  explicit Place(Kind kind, const std::string& token = "") {
    options_.rendezvous = kind == Kind::kFile ? directory_.StoreUrl() : port_.StoreUrl();
    options_.external_store = kind == Kind::kOutside;
    options_.timeout = 20s;
    options_.token = token;
    if (kind != Kind::kOutside) return;
    server_.emplace([this, token](const ToTest& test) {
      TcpStoreServer::Options options{.host = "127.0.0.1", .port = port_.port()};
      if (!token.empty()) options.token = *JobToken::Make(token, "the token");
      auto server = TcpStoreServer::Start(options);
      test.Say(server ? "serves" : server.error().ToString());
      test.Await();
    });
    REQUIRE(server_->NextLine() == "serves");
  }

  ConnectOptions For(Rank rank, int world_size, Path path) const {
    ConnectOptions options = options_;
    options.rank = rank;
    options.world_size = world_size;
    options.path = path;
    options.addresses = {"127.0.0.1"};
    options.rebuildable = true;
    return options;
  }

 private:
  TemporaryDirectory directory_;
  HeldPort port_;
  std::optional<Process> server_;
  ConnectOptions options_;
};

// Every rank contributes 1 << its first rank, in many elements, so the sum shows which ranks took part.
Result<std::int64_t> SumOfAll(Communicator& communicator, int first_rank) {
  std::vector<std::int64_t> values(20'000, std::int64_t{1} << first_rank);
  RONDO_TRY(communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kInt64, ReduceOp::kSum));
  for (const std::int64_t value : values)
    if (value != values.front()) return Fail(ErrorCode::kCorrupt, "{} beside {}", value, values.front());
  return values.front();
}

// Computes sums until one fails, and returns its error.
Error WorkUntilItFails(Communicator& communicator, int first_rank, std::int64_t expected) {
  for (;;) {
    const auto sum = SumOfAll(communicator, first_rank);
    if (!sum) return sum.error();
    if (*sum != expected) return Error(ErrorCode::kCorrupt, fmt::format("a sum of {}", *sum));
  }
}

// Rebuilds, computes a sum, and sends the outcome to the test, such as "rank 1 of 2: sum 5; generation 1 ...".
std::unique_ptr<Communicator> GoOn(Communicator& communicator, int first_rank, const ToTest& test,
                                   const RebuildOptions& options = {}) {
  auto next = communicator.Rebuild(options);
  if (!next) {
    test.Say(next.error().ToString());
    return nullptr;
  }
  const auto sum = SumOfAll(**next, first_rank);
  test.Say(sum ? fmt::format("rank {} of {}: sum {}; {}", (*next)->rank(), (*next)->world_size(), *sum,
                             (*next)->report().ToString())
               : sum.error().ToString());
  return *std::move(next);
}

using Body = std::function<void(Communicator&, Rank, const ToTest&)>;

std::vector<Process> Start(const Place& place, int ranks, Path path, const Body& body,
                           const std::function<void(ConnectOptions&)>& adjust = nullptr) {
  std::vector<Process> processes;
  for (Rank rank = 0; rank < ranks; ++rank) {
    ConnectOptions options = place.For(rank, ranks, path);
    if (adjust) adjust(options);
    processes.emplace_back([&body, options, rank, ranks](const ToTest& test) {
      auto communicator = Connect(options);
      if (!communicator) return test.Say("no rendezvous: " + communicator.error().ToString());
      const auto sum = SumOfAll(**communicator, rank);
      if (!sum || *sum != (std::int64_t{1} << ranks) - 1) return test.Say("no sum");
      test.Say("runs");
      body(**communicator, rank, test);
    });
  }
  for (Process& process : processes) REQUIRE(process.NextLine() == "runs");
  return processes;
}

// Waits until the file exists, because an operation returns its error before the records of the failure are written.
bool Appears(const std::string& file) {
  for (const TimePoint deadline = SteadyClock().Now() + 20s; SteadyClock().Now() < deadline;
       std::this_thread::sleep_for(1ms))
    if (std::filesystem::exists(file)) return true;
  return false;
}

#define CHECK_HAS(text, part) CHECK_MESSAGE((text).find(part) != std::string::npos, text)

TEST_CASE(
    "Whichever rank is killed, the others go on without it, over every path and in every store that outlives it") {
  for (const Path path : {Path::kTcp, Path::kShm})
    for (const Place::Kind kind : {Place::Kind::kFile, Place::Kind::kOutside})
      for (const Rank victim : {0, 1, 2}) {
        CAPTURE(static_cast<int>(path));
        CAPTURE(static_cast<int>(kind));
        CAPTURE(victim);
        const Place place(kind);
        auto processes = Start(place, 3, path, [](Communicator& communicator, Rank rank, const ToTest& test) {
          const Error error = WorkUntilItFails(communicator, rank, 7);
          if (error.code() != ErrorCode::kPeerLost) return test.Say(error.ToString());
          const auto next = GoOn(communicator, rank, test);
          if (next != nullptr) test.Say(TextOf(next->Close()));
        });
        const pid_t pid = processes[static_cast<std::size_t>(victim)].pid();
        processes[static_cast<std::size_t>(victim)].Kill();
        Rank now = 0;
        for (Rank rank = 0; rank < 3; ++rank) {
          if (rank == victim) continue;
          const std::string said = processes[static_cast<std::size_t>(rank)].NextLine();
          CHECK_HAS(said, fmt::format("rank {} of 2: sum {}; generation 1 of 2 ranks", now, 7 - (1 << victim)));
          CHECK_HAS(said, fmt::format("{} was {}", now, rank));
          CHECK_HAS(said, fmt::format("gone: rank {} (host ", victim));
          CHECK_HAS(said, fmt::format("pid {}): was found dead by rank", pid));
          CHECK(processes[static_cast<std::size_t>(rank)].NextLine() == "ok");
          StateFault(1, 1, "typed_error peer_lost", {.path = path == Path::kTcp ? "tcp" : "shm", .layer = "processes"});
          ++now;
        }
      }
}

TEST_CASE("Two that die together cost one rebuild, and the last one goes on alone") {
  const Place place(Place::Kind::kFile);
  auto processes = Start(place, 4, Path::kAuto, [](Communicator& communicator, Rank rank, const ToTest& test) {
    WorkUntilItFails(communicator, rank, 15);
    const auto next = GoOn(communicator, rank, test, {.settle = 2s});
    if (next == nullptr) return;
    WorkUntilItFails(*next, rank, 9);
    (void)GoOn(*next, rank, test, {.settle = 2s});
  });
  processes[2].Signal(SIGSTOP);  // so that rank 2 cannot react to the first death before rank 2 dies itself
  processes[1].Kill();
  processes[2].Kill();
  CHECK_HAS(processes[0].NextLine(), "rank 0 of 2: sum 9; generation 1 of 2 ranks; 0 was 0, 1 was 3; gone: rank 1 ");
  CHECK_HAS(processes[3].NextLine(), "rank 1 of 2: sum 9; generation 1 of 2 ranks; 0 was 0, 1 was 3; gone: rank 1 ");
  processes[0].Kill();
  CHECK_HAS(processes[3].NextLine(), "rank 0 of 1: sum 8; generation 2 of 1 ranks; 0 was 1; gone: rank 0 ");
  StateFault(2, 2, "correct", {.path = "shm", .layer = "processes"});
}

TEST_CASE("A rank that dies when it has seen the failure, in the midst of the rebuild, is left out as well") {
  const Place place(Place::Kind::kOutside);
  auto processes = Start(place, 3, Path::kTcp, [](Communicator& communicator, Rank rank, const ToTest& test) {
    WorkUntilItFails(communicator, rank, 7);
    if (rank == 1)
      kill(getpid(), SIGKILL);  // the others get this rank's failure notice or, without one, detect its death
    (void)GoOn(communicator, rank, test, {.settle = 1s});
  });
  processes[2].Kill();
  const std::string said = processes[0].NextLine();
  CHECK_HAS(said, "rank 0 of 1: sum 1; generation 1 of 1 ranks");
  CHECK_HAS(said, "gone: rank 1 (host ");
  CHECK_HAS(said, "did not come within");
  CHECK_HAS(said, "; rank 2 (host ");
  StateFault(2, 2, "correct", {.path = "tcp", .layer = "processes"});
}

TEST_CASE(
    "A rank that was stopped for too long gets the error that the others went on, and can touch nothing of theirs") {
  for (const Path path : {Path::kTcp, Path::kShm}) {
    CAPTURE(static_cast<int>(path));
    const Place place(Place::Kind::kFile);
    auto processes = Start(
        place, 3, path,
        [](Communicator& communicator, Rank rank, const ToTest& test) {
          test.Await();
          const Error error = WorkUntilItFails(communicator, rank, 7);
          if (rank == 1) {
            test.Say(error.ToString());
            (void)GoOn(communicator, rank, test);
            const auto again = SumOfAll(communicator, rank);
            return test.Say(again ? "it could" : again.error().ToString());
          }
          const auto next = GoOn(communicator, rank, test, {.settle = 500ms});
          if (next == nullptr) return;
          // Computes sums until the test has finished with the resumed rank.
          bool right = true;
          for (bool goes_on = true; goes_on && right;) {
            const auto sum = SumOfAll(*next, rank);
            // so that both ranks leave the loop in the same round
            std::int32_t last = rank == 0 && test.HasSignal() ? 1 : 0;
            right = sum && *sum == 5 && next->AllReduce(&last, &last, 1, DataType::kInt32, ReduceOp::kMax).has_value();
            goes_on = last == 0;
          }
          test.Say(right ? "right" : "wrong");
          test.Await();
        },
        [](ConnectOptions& options) { options.timeout = 3s; });
    processes[1].Signal(SIGSTOP);
    for (Process& process : processes) process.Tell();
    for (const std::size_t rank : {0u, 2u})
      CHECK_HAS(processes[rank].NextLine(), "of 2: sum 5; generation 1 of 2 ranks");
    processes[1].Signal(SIGCONT);
    const std::string error = processes[1].NextLine();
    CHECK(!error.empty());
    const std::string stale = processes[1].NextLine();
    CHECK_HAS(stale, "stale: generation 1 of job 'default' continues with 2 ranks and without this process");
    CHECK_HAS(stale, "did not come within");
    const std::string again = processes[1].NextLine();
    CHECK_MESSAGE(again.find("it could") == std::string::npos, again);
    processes[0].Tell();
    for (const std::size_t rank : {0u, 2u}) CHECK(processes[rank].NextLine() == "right");
    StateFault(4, 1, "typed_error stale", {.path = path == Path::kTcp ? "tcp" : "shm", .layer = "processes"});
  }
}

TEST_CASE("The time for which the whole job was stopped is no time that a rebuild had") {
  for (const Place::Kind kind : {Place::Kind::kFile, Place::Kind::kOutside}) {
    CAPTURE(static_cast<int>(kind));
    const Place place(kind);
    auto processes = Start(place, 3, Path::kTcp, [](Communicator& communicator, Rank rank, const ToTest& test) {
      WorkUntilItFails(communicator, rank, 7);
      test.Say("has failed");
      if (rank == 1) test.Await();  // so that rank 0 still waits for rank 1 when both are stopped
      const auto next = GoOn(communicator, rank, test, {.settle = 3s, .timeout = 4s});
      if (next != nullptr) (void)next->Close();
    });
    processes[2].Kill();
    for (const std::size_t rank : {0u, 1u}) CHECK(processes[rank].NextLine() == "has failed");
    std::this_thread::sleep_for(200ms);  // rank 0 begins to rebuild
    for (const std::size_t rank : {0u, 1u}) processes[rank].Signal(SIGSTOP);
    std::this_thread::sleep_for(6s);  // longer than the timeout
    for (const std::size_t rank : {1u, 0u}) {
      processes[rank].Tell();
      processes[rank].Signal(SIGCONT);
    }
    for (const std::size_t rank : {0u, 1u}) {
      const std::string said = processes[rank].NextLine();
      CAPTURE(said);
      CHECK_HAS(said, fmt::format("rank {} of 2: sum 3; generation 1 of 2 ranks", rank));
    }
  }
}

TEST_CASE("A store that a rank serves is as good as that rank: while it lives the others go on, with it they cannot") {
  {
    const Place place(Place::Kind::kRankZero);
    auto processes = Start(place, 3, Path::kTcp, [](Communicator& communicator, Rank rank, const ToTest& test) {
      WorkUntilItFails(communicator, rank, 7);
      const auto next = GoOn(communicator, rank, test);
      test.Await();
    });
    processes[1].Kill();
    for (const std::size_t rank : {0u, 2u})
      CHECK_HAS(processes[rank].NextLine(), "of 2: sum 5; generation 1 of 2 ranks");
  }
  {
    const Place place(Place::Kind::kRankZero);
    auto processes = Start(place, 3, Path::kTcp, [](Communicator& communicator, Rank rank, const ToTest& test) {
      WorkUntilItFails(communicator, rank, 7);
      (void)GoOn(communicator, rank, test);
    });
    processes[0].Kill();
    for (const std::size_t rank : {1u, 2u}) {
      const std::string said = processes[rank].NextLine();
      CHECK_HAS(said, "rebuild_failed: ");
      CHECK_HAS(said, "the store was served by one of the ranks and died with it");
      CHECK_HAS(said, "rondo run");
      CHECK_HAS(said, "first cause: store_lost");
    }
  }
}

TEST_CASE("A joiner is admitted to ranks without a failure, and a rank that died is replaced") {
  for (const Place::Kind kind : {Place::Kind::kFile, Place::Kind::kOutside, Place::Kind::kRankZero}) {
    CAPTURE(static_cast<int>(kind));
    const Place place(kind);
    const auto joiner = [&](int mark) {
      ConnectOptions options = place.For(0, 0, Path::kAuto);
      options.rank = std::nullopt;
      options.world_size = std::nullopt;
      options.join = true;
      return Process([options, mark](const ToTest& test) {
        auto communicator = Connect(options);
        if (!communicator) return test.Say(communicator.error().ToString());
        const auto sum = SumOfAll(**communicator, mark);
        if (!sum) return test.Say(sum.error().ToString());
        test.Say(fmt::format("rank {} of {}: sum {}; {}", (*communicator)->rank(), (*communicator)->world_size(), *sum,
                             (*communicator)->report().ToString()));
        WorkUntilItFails(**communicator, mark, 7);
        const auto next = GoOn(**communicator, mark, test, {.max_ranks = 3, .settle = 9s});
        test.Await();
      });
    };
    auto processes = Start(place, 2, Path::kAuto, [](Communicator& communicator, Rank rank, const ToTest& test) {
      const auto grown = GoOn(communicator, rank, test, {.max_ranks = 3, .settle = 9s});
      if (grown == nullptr) return;
      const Error error = WorkUntilItFails(*grown, rank, 7);
      if (error.code() != ErrorCode::kPeerLost) return test.Say(error.ToString());
      const auto next = GoOn(*grown, rank, test, {.max_ranks = 3, .settle = 9s});
      test.Await();
    });
    Process first = joiner(2);
    for (Process* process : {&processes[0], &processes[1], &first}) {
      const std::string said = process->NextLine();
      CHECK_HAS(said, "of 3: sum 7; generation 1 of 3 ranks; 0 was 0, 1 was 1, 2 is new");
    }
    processes[1].Kill();
    Process second = joiner(3);
    for (Process* process : {&processes[0], &first, &second}) {
      const std::string said = process->NextLine();
      CHECK_HAS(said, "of 3: sum 13; generation 2 of 3 ranks; 0 was 0, 1 was 2, 2 is new; gone: rank 1 ");
    }
  }
}

// Returns the error of a process that tries to join and is refused, because it has another token.
std::string RefusalOfWrongJoiner(const Place& place, const std::string& token) {
  ConnectOptions options = place.For(0, 0, Path::kAuto);
  options.rank = std::nullopt;
  options.world_size = std::nullopt;
  options.join = true;
  options.timeout = 50s;
  options.token = token;
  return Process([options](const ToTest& test) {
           auto communicator = Connect(options);
           test.Say(communicator ? "it got in" : communicator.error().ToString());
         })
      .NextLine();
}

TEST_CASE("With a token, ranks continue and admit joiners that have it; a process without it gets into no roster") {
  for (const Place::Kind kind : {Place::Kind::kFile, Place::Kind::kOutside}) {
    CAPTURE(static_cast<int>(kind));
    const Place place(kind, "secret");
    auto processes = Start(
        place, 2, Path::kAuto,
        [](Communicator& communicator, Rank rank, const ToTest& test) {
          const auto grown = GoOn(communicator, rank, test, {.max_ranks = 3, .settle = 40s});
          if (grown == nullptr) return;
          WorkUntilItFails(*grown, rank, 7);
          const auto next = GoOn(*grown, rank, test);
          test.Await();
        },
        [](ConnectOptions& options) { options.timeout = 50s; });
    // The ranks wait for a third rank during this loop.
    for (const std::string wrong : {"Secret", ""}) {
      const std::string said = RefusalOfWrongJoiner(place, wrong);
      if (kind == Place::Kind::kFile) {
        CHECK_HAS(said, "version_mismatch: ");
        CHECK_HAS(said, "token_fingerprint is '");
      } else {
        CHECK_HAS(said, "auth: store at 127.0.0.1:");
      }
    }
    ConnectOptions options = place.For(0, 0, Path::kAuto);
    options.rank = std::nullopt;
    options.world_size = std::nullopt;
    options.join = true;
    options.timeout = 50s;
    Process joiner([options](const ToTest& test) {
      auto communicator = Connect(options);
      if (!communicator) return test.Say(communicator.error().ToString());
      const auto sum = SumOfAll(**communicator, 2);
      test.Say(sum ? fmt::format("sum {}", *sum) : sum.error().ToString());
      WorkUntilItFails(**communicator, 2, 7);
      const auto next = GoOn(**communicator, 2, test);
      test.Await();
    });
    CHECK(joiner.NextLine() == "sum 7");
    for (Process& process : processes) CHECK_HAS(process.NextLine(), "of 3: sum 7; generation 1 of 3 ranks");
    processes[1].Kill();
    for (Process* process : {&processes[0], &joiner}) {
      const std::string said = process->NextLine();
      CHECK_HAS(said, "of 2: sum 5; generation 2 of 2 ranks; 0 was 0, 1 was 2; gone: rank 1 ");
    }
  }
}

TEST_CASE("The flight recorder's files carry the generation in which their operations ran") {
  const Place place(Place::Kind::kFile);
  const TemporaryDirectory records;
  auto processes = Start(
      place, 3, Path::kTcp,
      [](Communicator& communicator, Rank rank, const ToTest& test) {
        WorkUntilItFails(communicator, rank, 7);
        const auto next = GoOn(communicator, rank, test);
        if (next == nullptr) return;
        const std::string dump = next->DumpRecords();
        test.Say(dump.substr(dump.find("\"generation\":"), 17));
        WorkUntilItFails(*next, rank, 5);
        test.Say(TextOf(next->Barrier()));
        test.Await();
      },
      [&](ConnectOptions& options) { options.communicator.record_dir = records.path(); });
  processes[1].Kill();
  for (const std::size_t rank : {0u, 2u}) {
    CHECK_HAS(processes[rank].NextLine(), "of 2: sum 5; generation 1 of 2 ranks");
    CHECK(processes[rank].NextLine() == R"("generation": 1, )");
  }
  CHECK(Appears(records.File("rondo-default-g0-group0-rank0.json")));
  CHECK(Appears(records.File("rondo-default-g0-group0-rank2.json")));
  CHECK_FALSE(std::filesystem::exists(records.File("rondo-default-g1-group0-rank0.json")));
  processes[2].Kill();
  CHECK_HAS(processes[0].NextLine(), "peer_lost: ");
  CHECK(Appears(records.File("rondo-default-g1-group0-rank0.json")));
}

TEST_CASE("A part that is too small for min_ranks does not go on, and says who is missing") {
  const Place place(Place::Kind::kFile);
  auto processes = Start(place, 2, Path::kTcp, [](Communicator& communicator, Rank rank, const ToTest& test) {
    WorkUntilItFails(communicator, rank, 3);
    (void)GoOn(communicator, rank, test, {.min_ranks = 2, .settle = 100ms, .timeout = 1s});
    const auto next = GoOn(communicator, rank, test);  // a second Rebuild may ask for fewer ranks
    const auto twice = communicator.Rebuild();
    test.Say(twice ? "twice" : twice.error().ToString());
  });
  processes[1].Kill();
  const std::string said = processes[0].NextLine();
  CHECK_HAS(said, "rebuild_failed: 1 ranks are present to continue after generation 0");
  CHECK_HAS(said, "absent: rank 1 (host ");
  CHECK_HAS(processes[0].NextLine(), "rank 0 of 1: sum 1; generation 1 of 1 ranks");
  CHECK_HAS(processes[0].NextLine(), "invalid_argument: rank 0 has already rebuilt this communicator");
}

}  // namespace rebuild_processes_test
}  // namespace rondo
