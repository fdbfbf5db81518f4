// Reproducible mode: every reduction is ((0 op 1) op 2) op ..., for every algorithm, transport and timing. The expected
// result is computed here, on data for which nearly every other order gives different bits.
#include <doctest/doctest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "collectives/algorithms/table.h"
#include "collectives/connect.h"
#include "tests/communicator/plain.h"
#include "tests/communicator/sim_ranks.h"
#include "tests/support/connected_ranks.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"
#include "tests/support/threads.h"

namespace rondo {
namespace reproducible_test {

constexpr std::size_t kCount = 300;  // elements in all; a multiple of every world size in kWorlds
constexpr int kWorlds[] = {1, 2, 3, 4, 5};
constexpr std::uint64_t kMaxSimulatedRanks = 6;

using Bits = std::vector<std::uint64_t>;  // the bits of elements of any type

// The input of a rank: numbers of both signs, whose magnitudes cover many powers of two.
double Operand(Rank rank, std::size_t i) {
  Random random(1000 * static_cast<std::uint64_t>(rank) + i);
  return std::ldexp(random.Unit() + 0.5, static_cast<int>(random.Below(11)) - 5) * (random.Chance(0.5) ? 1 : -1);
}

// A type and an operation: how an element is stored, and one step of the fold. `last`: the step completes the result.
struct Arithmetic {
  DataType type;
  ReduceOp op;
  std::uint64_t (*store)(double value);
  std::uint64_t (*step)(std::uint64_t left, std::uint64_t right, bool last, int world);
};

template <typename T, typename U>
T As(U bits) {
  return std::bit_cast<T>(bits);
}

std::uint64_t StoreFloat(double value) { return As<std::uint32_t>(static_cast<float>(value)); }
float FloatOf(std::uint64_t bits) { return As<float>(static_cast<std::uint32_t>(bits)); }
std::uint64_t StoreHalf(double value) { return ToFloat16(static_cast<float>(value)); }
float HalfOf(std::uint64_t bits) { return FromFloat16(static_cast<std::uint16_t>(bits)); }

const Arithmetic kArithmetics[] = {
    {DataType::kFloat32, ReduceOp::kSum, StoreFloat,
     [](std::uint64_t a, std::uint64_t b, bool, int) -> std::uint64_t {
       return As<std::uint32_t>(FloatOf(a) + FloatOf(b));
     }},
    {DataType::kFloat32, ReduceOp::kAvg, StoreFloat,
     [](std::uint64_t a, std::uint64_t b, bool last, int world) -> std::uint64_t {
       const float sum = FloatOf(a) + FloatOf(b);
       return As<std::uint32_t>(last ? sum / static_cast<float>(world) : sum);
     }},
    {DataType::kFloat64, ReduceOp::kProd, [](double value) { return As<std::uint64_t>(value); },
     [](std::uint64_t a, std::uint64_t b, bool, int) -> std::uint64_t {
       return As<std::uint64_t>(As<double>(a) * As<double>(b));
     }},
    {DataType::kFloat16, ReduceOp::kSum, StoreHalf,
     [](std::uint64_t a, std::uint64_t b, bool, int) -> std::uint64_t { return ToFloat16(HalfOf(a) + HalfOf(b)); }},
};

Bits InputOf(const Arithmetic& arithmetic, Rank rank) {
  Bits bits(kCount);
  for (std::size_t i = 0; i < kCount; ++i) bits[i] = arithmetic.store(Operand(rank, i));
  return bits;
}

Bits LeftFold(const Arithmetic& arithmetic, int world) {
  Bits fold = InputOf(arithmetic, 0);
  for (Rank rank = 1; rank < world; ++rank) {
    const Bits more = InputOf(arithmetic, rank);
    for (std::size_t i = 0; i < kCount; ++i) fold[i] = arithmetic.step(fold[i], more[i], rank == world - 1, world);
  }
  return fold;
}

std::vector<std::byte> Pack(const Bits& bits, DataType type) {
  std::vector<std::byte> bytes(bits.size() * SizeOf(type));
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(bytes.data() + i * SizeOf(type), &bits[i], SizeOf(type));
  return bytes;
}

// One reduction of one rank: issues it, and checks its result.
struct Reduction {
  plain::Case what;
  const Arithmetic* arithmetic;
  std::vector<std::byte> input, output;
  Work work;

  Reduction(Communicator& communicator, const AlgorithmEntry& entry, const Arithmetic& a, OperationOptions options)
      : arithmetic(&a), input(Pack(InputOf(a, communicator.rank()), a.type)), output(input.size()) {
    what.collective = entry.collective;
    what.algorithm = entry.algorithm;
    what.root = communicator.world_size() / 2;
    const auto ranks = static_cast<std::size_t>(communicator.world_size());
    what.counts.assign(ranks, entry.collective == Collective::kReduceScatter ? kCount / ranks : kCount);
    work = plain::Issue(communicator, what, input.data(), output.data(), a.type, a.op, options);
  }

  // Whether this rank's part of the result is that of the left fold.
  bool IsLeftFold(Rank rank, int world) const {
    if (what.collective == Collective::kReduce && rank != what.root) return true;
    const std::vector<std::byte> fold = Pack(LeftFold(*arithmetic, world), arithmetic->type);
    const std::size_t part =
        what.collective == Collective::kReduceScatter ? fold.size() / what.counts.size() : fold.size();
    const std::size_t first = part == fold.size() ? 0 : part * static_cast<std::size_t>(rank);
    return std::memcmp(output.data(), fold.data() + first, part) == 0;
  }
};

std::vector<AlgorithmEntry> Reductions() {
  std::vector<AlgorithmEntry> entries;
  for (const AlgorithmEntry& entry : AllAlgorithms())
    if (Reduces(entry.collective)) entries.push_back(entry);
  return entries;
}

// Checks every algorithm that supports reproducible mode, on one communicator.
void CheckAll(Communicator& communicator) {
  for (const AlgorithmEntry& entry : Reductions()) {
    if (!entry.traits.left_fold) continue;
    for (const Arithmetic& arithmetic : kArithmetics) {
      Reduction reduction(communicator, entry, arithmetic, {});
      const Status status = reduction.work.Wait();
      CAPTURE(std::string(Name(entry.collective)) + " by " + std::string(Name(entry.algorithm)));
      CAPTURE(std::string(Name(arithmetic.type)) + " " + std::string(Name(arithmetic.op)));
      CAPTURE(TextOf(status));
      CHECK(status);
      CHECK(reduction.IsLeftFold(communicator.rank(), communicator.world_size()));
    }
  }
  // The algorithms that are chosen automatically are left folds, too.
  for (const std::uint64_t count : {1u, 100u, 30'000u, 600'000u}) {
    const auto choice = communicator.Choose({Collective::kAllReduce, count, DataType::kFloat32});
    REQUIRE(choice);
    // the intranode path is not in the table of algorithms, but computes a left fold
    const bool is_intranode = choice->algorithm == Algorithm::kIntranode;
    CHECK((is_intranode || FindAlgorithm(Collective::kAllReduce, choice->algorithm)->traits.left_fold));
  }
}

void Reproducible(CommunicatorOptions& options) {
  options.reproducible = true;
  options.frame_bytes = 192;
}

TEST_CASE("the data has other bits in other orders, so that what follows can fail") {
  InprocNetwork network(5);
  OnRanks(network, [](Communicator& communicator) {
    for (const Arithmetic& arithmetic : kArithmetics) {
      Reduction ring(communicator, *FindAlgorithm(Collective::kAllReduce, Algorithm::kRing), arithmetic, {});
      CHECK(ring.work.Wait());
      CHECK(!ring.IsLeftFold(communicator.rank(), 5));
    }
    CHECK(communicator.Close());
  });
}

TEST_CASE("every algorithm that serves it gives the left fold, on lanes that use every freedom") {
  const InprocOptions kinds[] = {{},
                                 {.ring_bytes = 512, .late_release = true, .slice_bytes = 50},
                                 {.reluctant = true},
                                 {.push = true, .refuse_windows = 0.3},
                                 {.reluctant = true, .push = true, .slow_connect_polls = 3}};
  for (const int world : kWorlds) {
    for (const InprocOptions& kind : kinds) {
      InprocNetwork network(world, kind);
      OnRanks(
          network,
          [](Communicator& communicator) {
            CheckAll(communicator);
            CHECK(communicator.Close());
          },
          [](CommunicatorOptions& options) {
            Reproducible(options);
            options.windows_from_bytes = 128;
          });
    }
  }
}

TEST_CASE("it is the left fold over TCP and in shared memory, too") {
  struct Way {
    std::size_t world;
    Path path;
  };
  for (const Way way : {Way{2, Path::kTcp}, Way{3, Path::kTcp}, Way{5, Path::kTcp}, Way{3, Path::kShm}}) {
    const std::size_t world = way.world;
    const std::filesystem::path rendezvous = std::filesystem::temp_directory_path() /
                                             ("rondo_fold_" + std::to_string(::getpid()) + "_" + std::to_string(world));
    ConnectOptions options;
    options.rendezvous = "file://" + rendezvous.string();
    options.addresses = {"127.0.0.1"};
    options.path = way.path;
    Reproducible(options.communicator);
    const auto ranks = ConnectEach(std::vector<ConnectOptions>(world, options));
    for (const Connected& rank : ranks) REQUIRE_MESSAGE(rank, rank.error().ToString());
    OnThreads(world, [&](std::size_t rank) {
      Communicator& communicator = **ranks[rank];
      CheckAll(communicator);
      CHECK(TextOf(communicator.Close()) == "ok");
    });
    std::filesystem::remove(rendezvous);
  }
}

TEST_CASE("it is the left fold under a hundred timings") {
  for (std::uint64_t seed = 1; seed <= 100; seed += Every(7)) {
    CAPTURE(seed);
    Random random(seed);
    const int world = static_cast<int>(random.Between(2, kMaxSimulatedRanks));
    SimOptions sim{.world_size = world, .seed = seed};
    sim.link.max_delay = std::chrono::microseconds(random.Between(1, 500));
    if (random.Chance(0.5)) sim.link.max_slice_bytes = random.Between(1, 300);
    if (random.Chance(0.3)) sim.link.clog_probability = random.Unit() * 0.05;
    sim.buffer_bytes = kLineBytes * random.Between(1, 16);
    sim.late_release = random.Chance(0.5);
    SimRanks ranks(sim, Reproducible);
    for (const AlgorithmEntry& entry : Reductions()) {
      if (!entry.traits.left_fold) continue;
      CAPTURE(std::string(Name(entry.collective)) + " by " + std::string(Name(entry.algorithm)));
      const Arithmetic& arithmetic = kArithmetics[random.Below(std::size(kArithmetics))];
      std::vector<Reduction> reductions;
      std::vector<Work> works;
      for (Rank rank = 0; rank < world; ++rank) {
        reductions.emplace_back(ranks.communicator(rank), entry, arithmetic, OperationOptions{});
        works.push_back(reductions.back().work);
      }
      CHECK(ranks.Finish(works) == "");
      for (Rank rank = 0; rank < world; ++rank)
        CHECK(reductions[static_cast<std::size_t>(rank)].IsLeftFold(rank, world));
    }
  }
}

TEST_CASE("an algorithm that is no left fold is refused, and an operation may want or waive the mode by itself") {
  InprocNetwork network(3);
  OnRanks(network, [](Communicator& communicator) {
    for (const AlgorithmEntry& entry : Reductions()) {
      if (entry.traits.left_fold) continue;
      CAPTURE(std::string(Name(entry.collective)) + " by " + std::string(Name(entry.algorithm)));
      Reduction refused(communicator, entry, kArithmetics[0], {.reproducible = true});
      const Status status = refused.work.Wait();
      REQUIRE(!status);
      CHECK(status.error().code() == ErrorCode::kInvalidArgument);
      CHECK(status.error().message().find("left fold in rank order") != std::string::npos);
      // The message names an algorithm that supports this call.
      CHECK(status.error().message().find("direct") != std::string::npos);
      Reduction waived(communicator, entry, kArithmetics[0], {.reproducible = false});
      CHECK(waived.work.Wait());
    }
    float values[1] = {1};
    CHECK(communicator.Broadcast(values, values, 1, DataType::kFloat32, 0,
                                 {.algorithm = Algorithm::kScatterAllGather, .reproducible = true}));
    CHECK(communicator.Close());
  });
}

}  // namespace reproducible_test
}  // namespace rondo
