// The options checksums and compare_results, as a program sees them: damaged data never becomes a result on any rank,
// and all ranks get the same error. Neither option costs anything if it is off.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithms/table.h"
#include "collectives/communicator.h"
#include "collectives/connect.h"
#include "collectives/engine/host_mover.h"
#include "tests/communicator/sim_ranks.h"
#include "tests/support/connected_ranks.h"
#include "tests/support/flipping.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace integrity_test {

// ---- data damaged between ranks, on virtual time ----

SimOptions Network(std::uint64_t seed, std::size_t max_slice_bytes) {
  return {.world_size = 4,
          .seed = seed,
          .link = {.max_slice_bytes = max_slice_bytes, .clog_probability = 0.02},
          .buffer_bytes = 1024,
          .late_release = seed % 2 == 0};
}

struct World {
  World(const SimOptions& sim, FlippedBit& bit, bool checksums)
      : ranks(sim, [&](CommunicatorOptions& options) {
          options.transport = std::make_shared<FlippingTransport>(options.transport, bit);
          options.frame_bytes = 256;
          options.windows_from_bytes = 128;
          options.checksums = checksums;
          options.timeout = std::chrono::seconds(5);
        }) {}
  SimRanks ranks;
};

// Computes the sum of 1 + rank on every rank. Returns for each rank "" if the call succeeded with the right numbers,
// otherwise what happened.
std::vector<std::string> SumOnAll(World& world, Algorithm algorithm) {
  constexpr std::size_t kCount = 600;
  std::vector<std::vector<std::int32_t>> values;
  std::vector<Work> works;
  for (Rank rank = 0; rank < 4; ++rank) values.emplace_back(kCount, rank + 1);
  for (Rank rank = 0; rank < 4; ++rank) {
    std::int32_t* const own = values[static_cast<std::size_t>(rank)].data();
    works.push_back(world.ranks.communicator(rank).AllReduceAsync(own, own, kCount, DataType::kInt32, ReduceOp::kSum,
                                                                  {.algorithm = algorithm}));
  }
  const std::vector<Status> statuses = world.ranks.FinishAll(works);
  std::vector<std::string> outcomes;
  for (Rank rank = 0; rank < 4; ++rank) {
    const auto& own = values[static_cast<std::size_t>(rank)];
    const Status& status = statuses[static_cast<std::size_t>(rank)];
    const bool right = std::all_of(own.begin(), own.end(), [](std::int32_t value) { return value == 10; });
    outcomes.push_back(!status ? status.error().ToString() : right ? "" : "wrong");
  }
  return outcomes;
}

std::vector<Algorithm> SumAlgorithms() {
  std::vector<Algorithm> found;
  for (const AlgorithmEntry& entry : AllAlgorithms())
    if (entry.collective == Collective::kAllReduce && entry.algorithm != Algorithm::kHierarchical)
      found.push_back(entry.algorithm);
  return found;
}

TEST_CASE("a bit that flips anywhere, under any timing: every rank fails with it or has the right sum") {
  int flips = 0;
  for (const Algorithm algorithm : SumAlgorithms()) {
    CAPTURE(Name(algorithm));
    std::uint64_t seed = 1;
    for (const auto& pair : {std::pair<Rank, Rank>{0, 1}, {1, 0}, {2, 3}, {3, 0}}) {
      const Rank from = pair.first, to = pair.second;  // a structured binding cannot be captured
      FlippedBit never{.from = from, .to = to, .offset = UINT64_MAX};
      {
        World sound(Network(1, 0), never, true);
        for (const std::string& outcome : SumOnAll(sound, algorithm)) CHECK(outcome == "");
      }
      for (std::uint64_t offset = 0; offset < never.stream_bytes; offset += 97 * Every(17)) {
        CAPTURE(from);
        CAPTURE(to);
        CAPTURE(offset);
        FlippedBit bit{.from = from, .to = to, .offset = offset};
        bit.mask = static_cast<unsigned char>(1 << offset % 8);
        World world(Network(++seed, offset % 3 == 0 ? 13 : 200), bit, true);
        int failed = 0;
        for (const std::string& outcome : SumOnAll(world, algorithm)) {
          CHECK(outcome != "wrong");
          if (outcome.empty()) continue;
          ++failed;
          CHECK(outcome.find("corrupt: a frame from rank " + std::to_string(from) + " arrived damaged on lane 0") == 0);
          CHECK(outcome.find("caused by rank " + std::to_string(from)) != std::string::npos);
        }
        CHECK(bit.fired == 1);
        CHECK(failed > 0);
        // A rank that had already finished gets the error from its next call at the latest.
        std::vector<Work> works;
        for (Rank rank = 0; rank < 4; ++rank) works.push_back(world.ranks.communicator(rank).BarrierAsync());
        for (const Status& status : world.ranks.FinishAll(works)) {
          REQUIRE(!status);
          CHECK(status.error().code() == ErrorCode::kCorrupt);
        }
        ++flips;
      }
    }
  }
  CHECK(flips > 300 / Every(17));
}

TEST_CASE("without checksums such a bit ends up in the sum of every rank it is passed on to") {
  for (const Algorithm algorithm : SumAlgorithms()) {
    CAPTURE(Name(algorithm));
    int wrong = 0;
    for (const auto& pair : {std::pair<Rank, Rank>{0, 1}, {1, 0}, {2, 3}, {3, 0}}) {
      const Rank from = pair.first, to = pair.second;  // a structured binding cannot be captured
      FlippedBit bit{.from = from, .to = to, .offset = 64, .mask = 64};
      World world(Network(1, 200), bit, false);
      for (const std::string& outcome : SumOnAll(world, algorithm)) wrong += outcome == "wrong";
    }
    CHECK(wrong > 0);
  }
}

TEST_CASE("a damaged message fails the communicator of both ends") {
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{100'000}}) {
    CAPTURE(bytes);
    FlippedBit bit{.from = 0, .to = 1, .lane = 1, .offset = bytes > 1000 ? 1000u : 70u};
    World world(Network(3, 500), bit, true);
    std::vector<char> sent(bytes, 'x'), received(bytes);
    std::vector<Work> works;
    works.push_back(world.ranks.communicator(0).SendAsync(sent.data(), bytes, DataType::kUint8, 1, 7));
    works.push_back(world.ranks.communicator(1).RecvAsync(received.data(), bytes, DataType::kUint8, 0, 7));
    const std::vector<Status> statuses = world.ranks.FinishAll(works);
    REQUIRE(!statuses[1]);
    CHECK(statuses[1].error().code() == ErrorCode::kCorrupt);
    CHECK(statuses[1].error().message().find("on lane 1") != std::string::npos);
    if (!statuses[0]) CHECK(statuses[0].error().code() == ErrorCode::kCorrupt);
    CHECK(bit.fired == 1);
  }
}

// ---- results that differ ----

// A mover that makes one error: its `at`-th move flips the lowest bit of the last byte.
class ErringMover final : public Mover {
 public:
  explicit ErringMover(int at) : left_(at) {}
  void Start(const MoveContext& context, std::size_t streams) override { mover_.Start(context, streams); }
  void Submit(std::uint32_t stream, const Move& move) override {
    mover_.Submit(stream, move);
    if (--left_ == 0 && move.bytes > 0) move.destination[move.bytes - 1] ^= std::byte{1};
  }
  std::uint64_t Done(std::uint32_t stream) override { return mover_.Done(stream); }
  void Drain() override { mover_.Drain(); }

 private:
  HostMover mover_;
  int left_;
};

struct Compared {
  int ranks;
  Rank erring;  // kNoRank: no rank makes an error
  bool compares;
};

// Runs an all-reduce, and returns its outcome on each rank. Each rank reduces the whole vector itself, so an error
// affects only the rank that made it.
std::vector<std::string> SumComparing(const Compared& c) {
  InprocNetwork network(c.ranks);
  std::vector<std::string> outcomes(static_cast<std::size_t>(c.ranks));
  OnRanks(
      network,
      [&](Communicator& communicator) {
        std::vector<std::int32_t> in(100, communicator.rank()), out(100);
        const Status status = communicator.AllReduce(in.data(), out.data(), in.size(), DataType::kInt32, ReduceOp::kSum,
                                                     {.algorithm = Algorithm::kDirect});
        outcomes[static_cast<std::size_t>(communicator.rank())] = TextOf(status);
        if (status) CHECK(TextOf(communicator.Close()) == "ok");
      },
      [&](CommunicatorOptions& options) {
        options.compare_results = c.compares;
        if (options.rank != c.erring) return;
        options.make_mover = [] { return std::make_unique<ErringMover>(1); };
      });
  return outcomes;
}

TEST_CASE("a rank that errs is named on all ranks where the others agree") {
  for (const Rank erring : {0, 1, 3}) {
    CAPTURE(erring);
    for (const std::string& outcome : SumComparing({.ranks = 4, .erring = erring, .compares = true})) {
      CHECK(outcome.find("corrupt: the ranks got different results; checksums: rank " + std::to_string(erring)) == 0);
      CHECK(outcome.find(", all 3 others 0x") != std::string::npos);
      CHECK(outcome.find("caused by rank " + std::to_string(erring)) != std::string::npos);
      CHECK(outcome.find("all_reduce int32 x 100 sum by direct #1") != std::string::npos);
    }
  }
}

TEST_CASE("of two ranks that differ neither is named; equal results and unasked comparison say nothing") {
  for (const std::string& outcome : SumComparing({.ranks = 2, .erring = 1, .compares = true})) {
    CHECK(outcome.find("no majority") != std::string::npos);
    CHECK(outcome.find("caused by") == std::string::npos);
  }
  for (const int ranks : {1, 2, 5})
    for (const std::string& outcome : SumComparing({.ranks = ranks, .erring = kNoRank, .compares = true}))
      CHECK(outcome == "ok");
  for (const std::string& outcome : SumComparing({.ranks = 4, .erring = 1, .compares = false})) CHECK(outcome == "ok");
}

TEST_CASE("any mix of operations, blocking and not, compared by the call or by the communicator") {
  for (const bool by_call : {false, true}) {
    InprocNetwork network(3);
    OnRanks(
        network,
        [&](Communicator& communicator) {
          const Rank rank = communicator.rank();
          std::vector<std::int32_t> data(3000, rank);
          std::vector<Work> works;
          for (int i = 0; i < 50; ++i) {
            OperationOptions options;
            if (by_call) options.compare_results = i % 2 == 0;
            std::int32_t* const own = data.data() + 10 * i;
            works.push_back(communicator.AllReduceAsync(own, own, 10, DataType::kInt32, ReduceOp::kMax, options));
            if (i % 7 == 6) CHECK(TextOf(works.back().Wait()) == "ok");
          }
          for (Work& work : works) CHECK(TextOf(work.Wait()) == "ok");
          CHECK(std::all_of(data.begin(), data.begin() + 500, [](std::int32_t value) { return value == 2; }));
          std::vector<std::uint64_t> counts{5, 0, 70};
          std::vector<std::int32_t> all(75), own(counts[static_cast<std::size_t>(rank)], rank);
          CHECK(TextOf(communicator.AllGatherV(own.data(), all.data(), counts, DataType::kInt32)) == "ok");
          CHECK(TextOf(communicator.Broadcast(all.data(), all.data(), 75, DataType::kInt32, 1)) == "ok");
          CHECK(TextOf(communicator.ReduceScatter(data.data(), all.data(), 20, DataType::kInt32, ReduceOp::kSum)) ==
                "ok");
          CHECK(TextOf(communicator.Barrier()) == "ok");
          CHECK(TextOf(communicator.Close()) == "ok");
        },
        [&](CommunicatorOptions& options) {
          options.compare_results = !by_call;
          options.max_pending_operations = 16;
        });
  }
}

TEST_CASE("an operation that is compared takes two places among those that may be pending") {
  InprocNetwork network(2);
  OnRanks(
      network,
      [](Communicator& communicator) {
        std::int32_t value = 1;
        const Status status =
            communicator.AllReduce(&value, &value, 1, DataType::kInt32, ReduceOp::kSum, {.compare_results = true});
        REQUIRE(!status);
        CHECK(status.error().code() == ErrorCode::kInvalidArgument);
        CHECK(status.error().message().find("max_pending_operations") != std::string::npos);
        CHECK(TextOf(communicator.AllReduce(&value, &value, 1, DataType::kInt32, ReduceOp::kSum)) == "ok");
        CHECK(TextOf(communicator.Close()) == "ok");
      },
      [](CommunicatorOptions& options) { options.max_pending_operations = 1; });
}

// ---- the rendezvous ----

TEST_CASE("ranks that do not agree on checksums or comparison get an error that names which, before anything is sent") {
  for (const bool checksums : {true, false}) {
    const std::filesystem::path rendezvous =
        std::filesystem::temp_directory_path() /
        ("rondo_integrity_" + std::to_string(::getpid()) + (checksums ? "_c" : "_r"));
    ConnectOptions options;
    options.rendezvous = "file://" + rendezvous.string();
    options.addresses = {"127.0.0.1"};
    std::vector<ConnectOptions> each(2, options);
    (checksums ? each[1].communicator.checksums : each[1].communicator.compare_results) = true;
    const auto ranks = ConnectEach(std::move(each));
    std::filesystem::remove(rendezvous);
    for (const Connected& rank : ranks) {
      const std::string outcome = rank ? "ok" : rank.error().ToString();
      CHECK(outcome.find("version_mismatch") == 0);
      CHECK(outcome.find(checksums ? "checksums" : "compare_results") != std::string::npos);
    }
  }
}

}  // namespace integrity_test
}  // namespace rondo
