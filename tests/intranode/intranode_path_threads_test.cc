// Ranks in separate threads that share one segment, as processes would.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "collectives/engine/host_mover.h"
#include "collectives/intranode/intranode_path.h"
#include "tests/engine/plain_shared_segment.h"
#include "tests/support/threads.h"

namespace rondo {
namespace intranode_path_threads_test {

// Runs in the thread of one rank, at the same time as the other ranks. False: the operation failed.
bool Finish(IntranodePath& path) {
  while (true) {
    const auto progress = path.Poll();
    if (!progress) return false;
    if (*progress == Progress::kComplete) return true;
    if (*progress == Progress::kNothing) std::this_thread::yield();
  }
}

TEST_CASE("a sum is the left fold in rank order, bit by bit: by all, by shares and by relay") {
  constexpr int kRanks = 5;
  for (const std::size_t count : {7u, 2000u, 60'000u}) {
    PlainSharedSegment memory(kRanks, 16 * 1024);
    Random random(3);
    std::vector<std::vector<float>> inputs(kRanks), outputs(kRanks);
    std::vector<float> expected(count);
    for (int r = 0; r < kRanks; ++r) {
      outputs[static_cast<std::size_t>(r)].resize(count);
      for (std::size_t i = 0; i < count; ++i) {
        const float value = static_cast<float>(random.Below(1'000'000)) * 1.37e-3f;
        inputs[static_cast<std::size_t>(r)].push_back(value);
        expected[i] = r == 0 ? value : expected[i] + value;
      }
    }
    OnThreads(kRanks, [&](Rank r) {
      HostMover mover;
      IntranodePath path(r, kRanks, memory, mover);
      CHECK(path.Start(
          {.operation = {.sequence = 1,
                         .count = count,
                         .collective = Collective::kAllReduce,
                         .type = DataType::kFloat32,
                         .algorithm = Algorithm::kIntranode},
           .buffers = {.input = reinterpret_cast<const std::byte*>(inputs[static_cast<std::size_t>(r)].data()),
                       .output = reinterpret_cast<std::byte*>(outputs[static_cast<std::size_t>(r)].data())},
           .scale = 1.0,
           .in_place = false}));
      CHECK(Finish(path));
    });
    for (const std::vector<float>& output : outputs)
      CHECK(std::memcmp(output.data(), expected.data(), count * sizeof(float)) == 0);
  }
}

// Mainly for the thread sanitizer: the ranks are threads, and run thousands of rounds.
TEST_CASE("ranks that run at the same time") {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kOperations = 600;
  PlainSharedSegment memory(kRanks, 1024);
  std::array<bool, kRanks> right{};
  OnThreads(kRanks, [&](Rank r) {
    HostMover mover;
    IntranodePath path(r, kRanks, memory, mover);
    Random random(9);  // the same seed on all ranks
    bool all_right = true;
    for (std::uint64_t sequence = 1; sequence <= kOperations; ++sequence) {
      const std::uint64_t count = random.Below(random.Chance(0.1) ? 4000 : 400);
      const bool sum = random.Chance(0.6);
      const Rank root = sum ? 0 : static_cast<Rank>(random.Below(kRanks));
      std::vector<std::int32_t> input(count, r + static_cast<std::int32_t>(sequence)), output(count);
      CHECK(path.Start({.operation = {.sequence = sequence,
                                      .count = count,
                                      .collective = sum ? Collective::kAllReduce : Collective::kBroadcast,
                                      .type = DataType::kInt32,
                                      .algorithm = Algorithm::kIntranode,
                                      .root = root},
                        .buffers = {.input = reinterpret_cast<const std::byte*>(input.data()),
                                    .output = reinterpret_cast<std::byte*>(output.data())},
                        .scale = 1.0,
                        .in_place = false}));
      if (!Finish(path)) return;
      const auto s = static_cast<std::int32_t>(sequence);
      for (const std::int32_t value : output) all_right &= value == (sum ? 3 * s + 3 : root + s);
    }
    right[static_cast<std::size_t>(r)] = all_right;
  });
  for (const bool one : right) CHECK(one);
}

template <int kRanks>
void SumInEachOthersMemory(bool reads, std::uint64_t count) {
  constexpr std::uint64_t kOperations = 12;
  PlainSharedSegment memory(kRanks, 8192);
  memory.AnswerQuestions(
      [&](PlainSharedSegment::Question question) { return PlainSharedSegment::IsAboutReading(question) == reads; });
  std::array<bool, kRanks> right{};
  OnThreads(kRanks, [&](Rank r) {
    HostMover mover;
    IntranodePath path(r, kRanks, memory, mover);
    std::vector<std::int32_t> input(count), output(count);
    bool all_right = true;
    for (std::uint64_t sequence = 1; sequence <= kOperations; ++sequence) {
      const auto s = static_cast<std::int32_t>(sequence);
      const bool in_place = (sequence + static_cast<std::uint64_t>(r)) % 3 == 0;  // true on some ranks only
      std::fill(input.begin(), input.end(), r + s);
      CHECK(path.Start({.operation = {.sequence = sequence,
                                      .count = count,
                                      .collective = Collective::kAllReduce,
                                      .type = DataType::kInt32,
                                      .algorithm = Algorithm::kIntranode},
                        .buffers = {.input = reinterpret_cast<const std::byte*>(input.data()),
                                    .output = reinterpret_cast<std::byte*>((in_place ? input : output).data())},
                        .scale = 1.0,
                        .in_place = in_place}));
      if (!Finish(path)) return;
      for (const std::int32_t value : in_place ? input : output)
        all_right &= value == kRanks * s + kRanks * (kRanks - 1) / 2;
    }
    right[static_cast<std::size_t>(r)] = all_right && path.single_copies() == kOperations;
  });
  for (const bool one : right) CHECK(one);
}

TEST_CASE("ranks that run at the same time, in each other's memory, mapped or read") {
  SumInEachOthersMemory<3>(/*reads=*/false, 100'000);
  SumInEachOthersMemory<2>(/*reads=*/true, 100'000);
}

}  // namespace intranode_path_threads_test
}  // namespace rondo
