// Tests the contract of communicators whose ranks share memory, on the intranode path and on lanes.
#include "collectives/communicator.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "collectives/communicator/waiter.h"
#include "tests/communicator/extreme_averages.h"
#include "tests/support/plain_device.h"
#include "tests/support/shm_ranks.h"
#include "transport/shm/process_memory.h"

namespace rondo::test {
namespace communicator_test {

constexpr DataType kInt = DataType::kInt32;

Communicator::Choice ChoiceOf(Communicator& c, const OperationOptions& options = {}) {
  const auto choice = c.Choose({.collective = Collective::kAllReduce, .count = 10, .type = kInt}, options);
  REQUIRE(choice);
  return *choice;
}

// Sums over all ranks on any path, and checks the result.
bool Sums(Communicator& c, std::uint64_t count, const OperationOptions& options = {}) {
  std::vector<std::int32_t> input(count, c.rank() + 1), output(count);
  const Status done = c.AllReduce(input.data(), output.data(), count, kInt, ReduceOp::kSum, options);
  INFO((done ? std::string() : done.error().ToString()));
  CHECK(done);
  const std::int32_t sum = c.world_size() * (c.world_size() + 1) / 2;
  return std::all_of(output.begin(), output.end(), [&](std::int32_t v) { return v == sum; });
}

TEST_CASE("ranks of one host take the intranode path unless another algorithm is asked for, and say so") {
  OnShmRanks({.ranks = 3}, [](Communicator& c) {
    CHECK(ChoiceOf(c).algorithm == Algorithm::kIntranode);
    CHECK(ChoiceOf(c).reason == "all ranks share memory");
    CHECK(ChoiceOf(c, {.algorithm = Algorithm::kRing}).algorithm == Algorithm::kRing);
    for (const std::uint64_t count : {0, 1, 1000, 100'000}) {
      CHECK(Sums(c, count));
      CHECK(Sums(c, count, {.algorithm = Algorithm::kRing}));
      CHECK(Sums(c, count, {.algorithm = Algorithm::kIntranode}));
    }
    if (c.rank() == 0) CHECK(c.DescribePaths().find("shared segment") != std::string::npos);
    CHECK(c.Close());
  });
}

// Sleeps and yields like a KernelWaiter, but reports a chosen CPU core. Counts the polls before the first yield.
class WaiterOn final : public Waiter {
 public:
  explicit WaiterOn(int core) : core_(core) {}
  void Sleep(Endpoint& endpoint, int kick_fd, TimePoint deadline) override {
    kernel_.Sleep(endpoint, kick_fd, deadline);
  }
  void Yield() override {
    has_yielded_.store(true);
    has_yielded_.notify_all();
    kernel_.Yield();
  }
  int Core() override {
    if (!has_yielded_.load()) looks_.fetch_add(1);
    return core_;
  }
  void CountFromHere() {
    looks_.store(0);
    has_yielded_.store(false);
  }
  int LooksBeforeYield() const {
    has_yielded_.wait(false);
    return looks_.load();
  }

 private:
  const int core_;
  const SteadyClock clock_;
  KernelWaiter kernel_{clock_};
  std::atomic<int> looks_{0};
  std::atomic<bool> has_yielded_{false};
};

// A clock that advances only when it is read, so that the load of the machine has no effect.
struct ClockPerRead final : Clock {
  TimePoint Now() const override { return TimePoint(std::chrono::nanoseconds(20) * reads.fetch_add(1)); }
  mutable std::atomic<std::int64_t> reads{0};
};

TEST_CASE("the core is given away at once to who is waited for and shares it, and late where all those run elsewhere") {
  const auto looks = [](int core0, int core1) {
    const std::array waiters{std::make_shared<WaiterOn>(core0), std::make_shared<WaiterOn>(core1)};
    int before_yield = 0;
    std::barrier<> counting(2);
    const auto adjust = [&](CommunicatorOptions& options) {
      options.clock = std::make_shared<ClockPerRead>();
      options.waiter = waiters[static_cast<std::size_t>(options.rank)];
      options.wait_policy = WaitPolicy::YieldsAtOnce();
      options.progress_thread = false;
    };
    OnShmRanks({.ranks = 2, .adjust = adjust}, [&](Communicator& c) {
      CHECK(c.Barrier());  // during this barrier each rank publishes its CPU core
      if (c.rank() == 0) waiters[0]->CountFromHere();
      counting.arrive_and_wait();
      if (c.rank() == 1) before_yield = waiters[0]->LooksBeforeYield();
      CHECK(c.Barrier());
      CHECK(c.Close());
    });
    return before_yield;
  };
  CHECK(looks(3, 3) < 5);
  CHECK(looks(3, 4) > 50);
  CHECK(looks(-1, -1) < 5);
}

TEST_CASE("counts of each rank's own go over lanes, between operations on the intranode path") {
  OnShmRanks({.ranks = 3}, [](Communicator& c) {
    const std::vector<std::uint64_t> counts{2, 0, 3};
    for (int i = 0; i < 3; ++i) {
      std::vector<std::int32_t> own(counts[static_cast<std::size_t>(c.rank())], c.rank()), all(5, -1);
      CHECK(c.AllGatherV(own.data(), all.data(), counts, kInt));
      CHECK(all == std::vector<std::int32_t>{0, 0, 2, 2, 2});
      CHECK(Sums(c, 100));
    }
    const auto forced = c.AllGatherV(nullptr, nullptr, counts, kInt, {.algorithm = Algorithm::kIntranode});
    CHECK(forced.error().code() == ErrorCode::kInvalidArgument);
    CHECK(c.Close());
  });
}

TEST_CASE("the bits are those of the left fold, in reproducible mode and out of it") {
  OnShmRanks({.ranks = 4}, [](Communicator& c) {
    for (const std::uint64_t count : {3u, 30'000u}) {
      std::vector<float> input(count), intranode(count), chain(count);
      for (std::uint64_t i = 0; i < count; ++i)
        input[i] = 1.0f / static_cast<float>(i + 3 + 7 * static_cast<unsigned>(c.rank()));
      const OperationOptions along{.algorithm = Algorithm::kChain};
      CHECK(c.AllReduce(input.data(), intranode.data(), count, DataType::kFloat32, ReduceOp::kSum));
      CHECK(c.AllReduce(input.data(), chain.data(), count, DataType::kFloat32, ReduceOp::kSum, along));
      CHECK(std::memcmp(intranode.data(), chain.data(), count * sizeof(float)) == 0);
      std::fill(intranode.begin(), intranode.end(), 0.0f);
      CHECK(c.AllReduce(input.data(), intranode.data(), count, DataType::kFloat32, ReduceOp::kSum,
                        {.reproducible = true}));
      CHECK(std::memcmp(intranode.data(), chain.data(), count * sizeof(float)) == 0);
    }
    CHECK(c.Close());
  });
}

TEST_CASE("a user's operation that does not commute sees its operands in rank order") {
  OnShmRanks({.ranks = 4}, [](Communicator& c) {
    // Keeps the upper bits of the first operand and the lowest byte of the second. So the result has the first rank's
    // value in its upper bits, and the last rank's value in its lowest byte.
    const auto op = c.DefineOperation(
        {.name = "ends",
         .commutative = false,
         .combine = [](const void* left, const void* right, void* result, std::size_t elements, DataType) {
           for (std::size_t i = 0; i < elements; ++i) {
             std::int32_t l, r;
             std::memcpy(&l, static_cast<const std::byte*>(left) + 4 * i, 4);
             std::memcpy(&r, static_cast<const std::byte*>(right) + 4 * i, 4);
             const std::int32_t ends = (l & ~0xff) | (r & 0xff);
             std::memcpy(static_cast<std::byte*>(result) + 4 * i, &ends, 4);
           }
         }});
    REQUIRE(op);
    for (const std::uint64_t count : {5u, 20'000u}) {
      const std::int32_t mine = ((c.rank() + 1) << 8) | (c.rank() + 1);
      std::vector<std::int32_t> data(count, mine);
      CHECK(c.AllReduce(data.data(), data.data(), count, kInt, *op));
      CHECK(data == std::vector<std::int32_t>(count, (1 << 8) | 4));
    }
    CHECK(c.Close());
  });
}

TEST_CASE("16-bit floats with fp32_accumulate are summed in float32 on the intranode path") {
  OnShmRanks({.ranks = 3}, [](Communicator& c) {
    for (const std::uint64_t count : {10u, 9000u}) {
      // In bfloat16, 256 + 1 + 1 stays 256. If the sum is computed in float32 and rounded once, it is 258.
      const std::uint16_t mine = c.rank() == 0 ? 0x4380 : 0x3f80;
      std::vector<std::uint16_t> data(count, mine);
      CHECK(
          c.AllReduce(data.data(), data.data(), count, DataType::kBfloat16, ReduceOp::kSum, {.fp32_accumulate = true}));
      CHECK(data == std::vector<std::uint16_t>(count, 0x4381));
    }
    CHECK(c.Close());
  });
}

TEST_CASE("averages whose sums are beyond their type are right on the intranode path, however it moves them") {
  OnShmRanks({.ranks = 3}, [](Communicator& c) {
    for (const DataType type : extreme::kTypes)
      for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter})
        for (const std::size_t count : {1u, 3u, 1000u, 60'000u})
          for (const bool in_place : {false, true}) {
            CAPTURE(std::string(Name(type)));
            CAPTURE(count);
            CHECK(extreme::Run(c, {.collective = collective, .in_place = in_place, .count = count}, type) == "");
          }
    CHECK(c.Close());
  });
}

TEST_CASE("memory of devices goes over the intranode path, window by window, from memory that peers map") {
  std::vector<std::shared_ptr<PlainDevice>> devices{std::make_shared<PlainDevice>(1), std::make_shared<PlainDevice>(2)};
  const ShmJob job{.ranks = 2, .adjust = [&](CommunicatorOptions& options) {
                     options.device = devices[static_cast<std::size_t>(options.rank)];
                     options.device_window_bytes = 64 << 10;
                   }};
  OnShmRanks(job, [&](Communicator& communicator) {
    constexpr std::size_t kElements = 100'000;
    PlainDevice& device = *devices[static_cast<std::size_t>(communicator.rank())];
    PlainStream stream;
    PlainDeviceMemory& memory = device.Allocate(kElements * sizeof(std::int32_t));
    auto* const values = reinterpret_cast<std::int32_t*>(memory.bytes().data());
    for (std::size_t i = 0; i < kElements; ++i) values[i] = static_cast<std::int32_t>(i) * (communicator.rank() + 1);
    const Status status = communicator.AllReduce(memory.address(), memory.address(), kElements, DataType::kInt32,
                                                 ReduceOp::kSum, {.memory = MemoryKind::kDevice, .stream = &stream});
    INFO((status ? std::string() : status.error().ToString()));
    CHECK(status);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < kElements; ++i) wrong += values[i] != static_cast<std::int32_t>(i) * 3;
    CHECK(wrong == 0);
    CHECK(stream.Run());
  });
}

TEST_CASE("groups have shared segments of their own") {
  OnShmRanks({.ranks = 5}, [](Communicator& c) {
    auto group = c.Split(c.rank() % 2, -c.rank());
    REQUIRE(group);
    REQUIRE(*group);
    CHECK(ChoiceOf(**group).algorithm == Algorithm::kIntranode);
    for (int i = 0; i < 20; ++i) {
      CHECK(Sums(**group, 50));
      CHECK(Sums(c, 50));
    }
    CHECK((*group)->Close());
    CHECK(c.Close());
  });
}

TEST_CASE("a rank that does not say its host leaves all on lanes") {
  OnShmRanks({.ranks = 3,
              .adjust_shm =
                  [](Rank rank, ShmOptions& options) {
                    if (rank == 1) options.host_id.clear();
                  }},
             [](Communicator& c) {
               CHECK(ChoiceOf(c).algorithm != Algorithm::kIntranode);
               CHECK(Sums(c, 1000));
               std::vector<std::int32_t> data(1, 1);
               const Status forced =
                   c.AllReduce(data.data(), data.data(), 1, kInt, ReduceOp::kSum, {.algorithm = Algorithm::kIntranode});
               REQUIRE(!forced);
               CHECK(forced.error().message() ==
                     "algorithm intranode does not support this all_reduce: the ranks share no memory");
               CHECK(c.Close());
             });
}

TEST_CASE("operations issued before it is known whether there is a shared segment are served all the same") {
  OnShmRanks({.ranks = 3}, [](Communicator& c) {
    constexpr int kOperations = 40;
    std::vector<std::int32_t> data(kOperations, 1);
    std::vector<Work> works;
    for (std::int32_t& value : data) works.push_back(c.AllReduceAsync(&value, &value, 1, kInt, ReduceOp::kSum));
    for (Work& work : works) CHECK(work.Wait());
    CHECK(data == std::vector<std::int32_t>(kOperations, 3));
    CHECK(c.Close());
  });
}

int SharedMappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:rondo") != std::string::npos ? 1 : 0;
  return count;
}

TEST_CASE("allocated memory is read where it lies, mapped once, and let go when its owner has freed it") {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kCount = 100'000;
  OnShmRanks({.ranks = kRanks}, [&](Communicator& c) {
    CHECK(c.Barrier());
    const int before = SharedMappings();
    CHECK(c.Barrier());
    for (int round = 0; round < 3; ++round) {
      const auto input = c.Allocate(kCount * 4), output = c.Allocate(kCount * 4);
      REQUIRE(input);
      REQUIRE(output);
      auto* const in = reinterpret_cast<std::int32_t*>((*input)->bytes().data());
      auto* const out = reinterpret_cast<std::int32_t*>((*output)->bytes().data());
      CHECK(std::all_of(in, in + kCount, [](std::int32_t v) { return v == 0; }));
      for (int again = 0; again < 3; ++again) {
        for (std::uint64_t i = 0; i < kCount; ++i) in[i] = static_cast<std::int32_t>(i) + c.rank() + again;
        CHECK(c.AllReduce(in, out, kCount, kInt, ReduceOp::kSum));
        CHECK(std::count_if(out, out + kCount, [&](const std::int32_t& v) {
                return v == kRanks * (static_cast<std::int32_t>(&v - out) + again) + 3;
              }) == kCount);
        CHECK(c.AllReduce(in, in, kCount, kInt, ReduceOp::kSum));  // this sum is in place
        CHECK(std::equal(in, in + kCount, out));
      }
      CHECK(c.Barrier());
      // Each of three ranks has two mappings for its own memory, and two for the memory of each of the two others. This
      // exact number shows that the mappings of the previous round are gone.
      if (c.rank() == 0) CHECK(SharedMappings() - before == kRanks * kRanks * 2);
      CHECK(c.Barrier());
    }
    CHECK(c.Close());
  });
}

TEST_CASE("a rank with memory of its own making has all of them read through the kernel") {
  OnShmRanks({.ranks = 2}, [&](Communicator& c) {
    constexpr std::uint64_t kCount = 100'000;
    const auto shared = c.Allocate(kCount * 4);
    REQUIRE(shared);
    std::vector<std::int32_t> own(c.rank() == 0 ? kCount : 0);
    auto* const data = c.rank() == 0 ? own.data() : reinterpret_cast<std::int32_t*>((*shared)->bytes().data());
    std::fill(data, data + kCount, c.rank() + 1);
    CHECK(c.AllReduce(data, data, kCount, kInt, ReduceOp::kSum));
    CHECK(std::all_of(data, data + kCount, [](std::int32_t v) { return v == 3; }));
    CHECK(c.DescribePaths().find("reads large vectors directly") != std::string::npos);
    CHECK(c.Close());
  });
}

TEST_CASE("memory that the processor reads and the kernel does not goes through slots") {
  constexpr std::uint64_t kCount = 100'000;
  OnShmRanks({.ranks = 2}, [&](Communicator& c) {
    // Needs memory that the processor can read although its mapping is write-only. x86-64 cannot forbid such reads; on
    // other processors the test does nothing.
    void* const memory = mmap(nullptr, kCount * 4, c.rank() == 0 ? PROT_WRITE : PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    auto* const data = static_cast<std::int32_t*>(memory);
    std::fill(data, data + kCount, c.rank() + 1);
#if defined(__x86_64__)
    CHECK(!shm::CanBeRead(Bytes(static_cast<std::byte*>(memory), kCount * 4)) == (c.rank() == 0));
    CHECK(c.AllReduce(data, data, kCount, kInt, ReduceOp::kSum));
    CHECK(std::all_of(data, data + kCount, [](std::int32_t v) { return v == 3; }));
#endif
    CHECK(c.Close());
    munmap(memory, kCount * 4);
  });
}

// ---- failures ----

TEST_CASE("a rank that never comes is named, while memory is still to be shared and afterwards") {
  for (const bool after : {false, true}) {
    std::array<std::atomic<int>, 3> culprits{};
    OnShmRanks({.ranks = 3, .timeout = std::chrono::milliseconds(after ? 700 : 500)}, [&](Communicator& c) {
      if (after) CHECK(Sums(c, 1));
      if (c.rank() == 2) return;
      std::int32_t value = 1;
      const Status sum = c.AllReduce(&value, &value, 1, kInt, ReduceOp::kSum);
      REQUIRE(!sum);
      culprits[static_cast<std::size_t>(c.rank())] = sum.error().culprit();
      if (c.rank() == 0) CHECK(sum.error().code() == ErrorCode::kTimeout);
    });
    CHECK(culprits[0] == 2);
    CHECK(culprits[1] == 2);
  }
}

TEST_CASE("a rank that leaves in the middle is named by all, at once") {
  std::array<std::atomic<int>, 4> culprits{};
  std::barrier<> met(4);  // without this, rank 2 could leave while other ranks are still in the first sum
  OnShmRanks({.ranks = 4}, [&](Communicator& c) {
    CHECK(Sums(c, 10));
    met.arrive_and_wait();
    if (c.rank() == 2) return c.Abort("it had enough");
    std::vector<std::int32_t> data(1'000'000, 1);
    const TimePoint start = std::chrono::steady_clock::now();
    const Status sum = c.AllReduce(data.data(), data.data(), data.size(), kInt, ReduceOp::kSum);
    REQUIRE(!sum);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
    culprits[static_cast<std::size_t>(c.rank())] = sum.error().culprit();
  });
  for (const Rank r : {0, 1, 3}) CHECK(culprits[static_cast<std::size_t>(r)] == 2);
}

TEST_CASE("ranks in different operations get an error: both on the intranode path, or one of them on lanes") {
  for (const bool lanes : {false, true}) {
    OnShmRanks({.ranks = 2}, [&](Communicator& c) {
      CHECK(Sums(c, 1));
      std::array<std::int32_t, 4> data{};
      Status done;
      if (c.rank() == 0) {
        done = c.AllReduce(data.data(), data.data(), 1, kInt, ReduceOp::kSum);
      } else if (lanes) {
        const std::array<std::uint64_t, 2> counts{1, 2};
        std::array<std::int32_t, 3> all{};
        done = c.AllGatherV(data.data(), all.data(), counts, kInt);
      } else {
        done = c.Broadcast(data.data(), data.data(), 1, kInt, 0);
      }
      REQUIRE(!done);
      CHECK(done.error().code() == ErrorCode::kMismatch);
      CHECK(done.error().culprit() == 1 - c.rank());
    });
  }
}

// The number of times that the threads of this process, except those in `but`, have voluntarily given up their CPU
// core.
std::uint64_t SleepsOfThreads(const std::array<pid_t, 2>& but) {
  std::uint64_t sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const pid_t thread = std::stoi(task.path().filename());
    if (std::find(but.begin(), but.end(), thread) != but.end()) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.rfind("voluntary_ctxt_switches:", 0) == 0) sleeps += std::stoull(line.substr(line.find(':') + 1));
  }
  return sleeps;
}

TEST_CASE("progress threads sleep while the calls of others need nothing of them") {
  std::array<pid_t, 2> callers{};
  OnShmRanks({.ranks = 2}, [&](Communicator& c) {
    callers[static_cast<std::size_t>(c.rank())] = ::gettid();
    std::int32_t one = 1, sum = 0;
    CHECK(c.AllReduceAsync(&one, &sum, 1, kInt, ReduceOp::kSum).Wait());  // starts the progress threads
    for (const Algorithm algorithm : {Algorithm::kIntranode, Algorithm::kRing}) {
      CAPTURE(Name(algorithm));
      const std::uint64_t before = c.rank() == 0 ? SleepsOfThreads(callers) : 0;
      CHECK(c.Barrier());
      for (int i = 0; i < 1000; ++i) CHECK(c.AllReduce(&one, &sum, 1, kInt, ReduceOp::kSum, {.algorithm = algorithm}));
      if (c.rank() == 0) CHECK(SleepsOfThreads(callers) - before < 200);
      CHECK(c.Barrier());
    }
    CHECK(c.Close());
  });
}

TEST_CASE("a rank that waits long sleeps, before there is a shared segment and with it") {
  for (const bool before : {true, false}) {
    OnShmRanks({.ranks = 2}, [&](Communicator& c) {
      if (!before) CHECK(Sums(c, 1));
      const auto cpu_ms = [] {
        timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
      };
      if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
      const double start = cpu_ms();
      CHECK(Sums(c, 1));
      if (c.rank() == 0) CHECK(cpu_ms() - start < 100);
      CHECK(c.Close());
    });
  }
}

TEST_CASE("allocated memory is shown to peers only where all that belongs to an operation is") {
  std::atomic<int> shown{0};
  const auto adjust = [&](Rank, ShmOptions& shm) {
    shm.watch_steps = [&](std::string_view step) { shown += step == "region shown" ? 1 : 0; };
  };
  OnShmRanks({.ranks = 2, .adjust_shm = adjust}, [&](Communicator& c) {
    constexpr std::uint64_t kCount = 100'000;
    std::vector<std::int32_t> out(kCount);
    for (int round = 0; round < 3; ++round) {
      const auto input = c.Allocate(kCount * 4);
      REQUIRE(input);
      // Here the rank must not pass `input` to its peers. The communicator did not allocate `out`, so no peer would
      // look up `input`. Peers would then keep `input` mapped after it is freed.
      CHECK(c.AllReduce((*input)->bytes().data(), out.data(), kCount, kInt, ReduceOp::kSum));
    }
    CHECK(c.Barrier());
    CHECK(shown == 0);
    CHECK(c.Barrier());
    const auto input = c.Allocate(kCount * 4);
    REQUIRE(input);
    CHECK(c.AllReduce((*input)->bytes().data(), (*input)->bytes().data(), kCount, kInt, ReduceOp::kSum));
    CHECK(c.Barrier());
    CHECK(shown == 2);
    CHECK(c.Close());
  });
}

}  // namespace communicator_test
}  // namespace rondo::test
