// Waiting for operations: timeouts, several waiting threads, the progress thread, callbacks, the limit on pending work.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collectives/communicator.h"
#include "collectives/communicator/waiter.h"
#include "tests/support/fault_row.h"
#include "tests/support/passing_transport.h"
#include "tests/support/ranks.h"
#include "tests/support/threads.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace waiting_test {

// doctest's asserts are thread-safe, but the rest of doctest is not. So every check here is on plain values, such as
// texts and numbers.

TEST_CASE("a Wait that ends early returns not_ready and fails nothing") {
  InprocNetwork network(2);
  std::barrier<> late(2);
  OnRanks(network, [&](Communicator& communicator) {
    float value = 1;
    if (communicator.rank() == 1) late.arrive_and_wait();
    Work work = communicator.AllReduceAsync(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum);
    if (communicator.rank() == 0) {
      const Status early = work.Wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
      CHECK((!early && early.error().code() == ErrorCode::kNotReady));
      late.arrive_and_wait();
    }
    CHECK(work.Wait());
    CHECK(value == 2);
    CHECK(communicator.Close());
  });
}

TEST_CASE("several threads may wait for operations of one communicator") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    constexpr std::size_t kOperations = 64;
    std::vector<std::int32_t> values(kOperations, 1);
    for (int round = 0; round < 10; ++round) {
      std::vector<Work> works;
      for (std::int32_t& value : values) {
        value = 1;
        works.push_back(communicator.AllReduceAsync(&value, &value, 1, DataType::kInt32, ReduceOp::kSum));
      }
      std::atomic<int> good{0};
      OnThreads(std::size_t{4}, [&](std::size_t t) {
        for (std::size_t i = t; i < kOperations; i += 4)
          if (works[i].Wait() && values[i] == 2) good.fetch_add(1);
      });
      CHECK(good.load() == static_cast<int>(kOperations));
    }
    CHECK(communicator.Close());
  });
}

TEST_CASE("operations that no thread waits for are advanced by the progress thread, callbacks may run collectives") {
  InprocNetwork network(3);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<std::int32_t> values(5000, 1), nested(10, 1);
    std::atomic<bool> done{false};
    Work work = communicator.AllReduceAsync(values.data(), values.data(), 5000, DataType::kInt32, ReduceOp::kSum);
    work.Then([&](const Status& status) {
      CHECK(status);
      CHECK(values[4999] == 3);
      CHECK(communicator.AllReduce(nested.data(), nested.data(), 10, DataType::kInt32, ReduceOp::kSum));
      done.store(true);
      done.notify_all();
    });
    done.wait(false);
    CHECK(nested[9] == 3);
    CHECK(communicator.Close());
  });
}

TEST_CASE("what is left behind by who waited again and again is driven by the progress thread all the same") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    for (std::int32_t round = 0; round < 20; ++round) {
      // A thread that waits for operations also advances them. After that the progress thread stays idle for a while.
      for (int i = 0; i < 50; ++i) CHECK(communicator.Barrier());
      std::int32_t value = round;
      std::atomic<bool> done{false};
      Work work = communicator.AllReduceAsync(&value, &value, 1, DataType::kInt32, ReduceOp::kSum);
      work.Then([&](const Status& status) {
        CHECK(status);
        done.store(true);
        done.notify_all();
      });
      done.wait(false);
      CHECK(value == 2 * round);
    }
    CHECK(communicator.Close());
  });
}

TEST_CASE("a callback may wait for a later operation") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    std::array<std::int32_t, 2> values{1, 1};
    std::atomic<bool> second_done{false}, saw_it{false};
    Work first = communicator.AllReduceAsync(&values[0], &values[0], 1, DataType::kInt32, ReduceOp::kSum);
    Work second = communicator.AllReduceAsync(&values[1], &values[1], 1, DataType::kInt32, ReduceOp::kSum);
    first.Then([&](const Status&) {
      while (!second.Test()) {
      }
      saw_it.store(true);
    });
    second.Then([&](const Status&) { second_done.store(true); });
    CHECK(first.Wait());
    CHECK(second.Wait());
    while (!saw_it.load() || !second_done.load()) std::this_thread::yield();
    CHECK(values == std::array<std::int32_t, 2>{2, 2});
    CHECK(communicator.Close());
  });
}

TEST_CASE("an operation ends within its timeout and says who is missing") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      // The rank lives, but does not make the call before the other rank has failed.
      while (!communicator.failure()) communicator.Progress();
      return;
    }
    float value = 1;
    const auto before = std::chrono::steady_clock::now();
    const Status status = communicator.AllReduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum,
                                                 {.timeout = std::chrono::milliseconds(200)});
    const auto took = std::chrono::steady_clock::now() - before;
    CAPTURE(TextOf(status));
    CHECK(TextOf(status).find("timeout") == 0);
    CHECK(TextOf(status).find("rank 0 waits for rank 1 (nothing of this operation arrived") != std::string::npos);
    CHECK(took >= std::chrono::milliseconds(200));
    CHECK(took < std::chrono::seconds(5));
    StateFault(5, 1, {status}, {.path = "inproc", .took = took});
  });
}

TEST_CASE("ranks that wait for one another all name the silent rank that one of them waits for, and since when") {
  InprocNetwork network(4);
  std::barrier<> failed(4);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> values(1000, 1);
    const auto sum = [&](Duration timeout) {
      return communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kFloat32, ReduceOp::kSum,
                                    {.timeout = timeout, .algorithm = Algorithm::kRing});
    };
    CHECK(sum(std::chrono::seconds(20)));
    if (communicator.rank() != 1) {
      // Rank 2 waits for rank 1, and rank 3 for rank 2. The deadline of rank 3 is the first to pass.
      const Status status = sum(std::chrono::milliseconds(communicator.rank() == 3 ? 900 : 1000));
      CAPTURE(TextOf(status));
      CHECK((!status && status.error().code() == ErrorCode::kTimeout));
      CHECK((!status && status.error().culprit() == 1));
      CHECK(TextOf(status).find("rank 1 (nothing of this operation ") != std::string::npos);
      CHECK(TextOf(status).find("; connected and silent for ") != std::string::npos);
      StateFault(5, 1, {status}, {.path = "inproc"});
    }
    failed.arrive_and_wait();
  });
}

TEST_CASE(
    "a timeout says of a peer that was never connected how far that is, and not that it is connected and silent") {
  std::vector<std::shared_ptr<Transport>> transports;
  for (int rank = 0; rank < 2; ++rank) {
    TcpOptions tcp;
    tcp.job = "waiting";
    tcp.host_id = "here";
    tcp.addresses = {"127.0.0.1"};
    auto transport = MakeTcpTransport(std::move(tcp));
    REQUIRE(transport);
    transports.push_back(std::move(*transport));
  }
  CommunicatorOptions options;  // for rank 0; rank 1 has a listening transport, but no communicator yet
  options.rank = 0;
  for (const auto& transport : transports)
    options.peers.push_back({.host = "host", .host_id = "here", .pid = 1, .address = transport->Address()});
  options.transport = transports[0];
  const auto communicator = Communicator::Create(std::move(options));
  REQUIRE(communicator);
  float value = 1;
  const Status status = (*communicator)
                            ->AllReduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum,
                                        {.timeout = std::chrono::milliseconds(300)});
  REQUIRE(!status);
  CAPTURE(TextOf(status));
  CHECK(status.error().code() == ErrorCode::kTimeout);
  CHECK(TextOf(status).find("not connected: 127.0.0.1:") != std::string::npos);
  CHECK(TextOf(status).find("it answered, but has not opened the communicator yet") != std::string::npos);
  CHECK(TextOf(status).find("connected and silent") == std::string::npos);
}

TEST_CASE("an operation queued behind a longer one still ends within its own timeout") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      while (!communicator.failure()) communicator.Progress();
      return;
    }
    std::array<float, 3> values{};
    const auto issue = [&](float& value, Duration timeout) {
      return communicator.AllReduceAsync(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum, {.timeout = timeout});
    };
    const auto before = std::chrono::steady_clock::now();
    issue(values[0], std::chrono::seconds(20));
    issue(values[1], std::chrono::milliseconds(200));
    Work last = issue(values[2], std::chrono::seconds(20));
    const Status status = last.Wait();
    CAPTURE(TextOf(status));
    CHECK(TextOf(status).find("timeout: #2 ") == 0);
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(10));
  });
}

// A thread issues an operation between the owner's last poll and its sleep. This happens once.
struct Gap {
  std::atomic<bool> due{false};
  std::binary_semaphore found{0}, issued{0};
  std::atomic<bool> unseen{false};  // the operation was issued, and no thread has polled since then
  std::atomic<bool> slept{false};   // a thread slept although the operation was unseen
};

class EndpointWithGap final : public PassingEndpoint {
 public:
  EndpointWithGap(std::unique_ptr<Endpoint> inner, Gap& gap) : PassingEndpoint(std::move(inner)), gap_(gap) {}
  void Poll(TimePoint now) override {
    gap_.unseen = false;
    PassingEndpoint::Poll(now);
  }
  bool Arm() override {
    const bool news = PassingEndpoint::Arm();
    if (!news && gap_.due.exchange(false)) {
      gap_.found.release();
      gap_.issued.acquire();
      gap_.unseen = true;
    }
    return news;
  }

 private:
  Gap& gap_;
};

class TransportWithGap final : public PassingTransport {
 public:
  TransportWithGap(std::shared_ptr<Transport> inner, Gap& gap) : PassingTransport(std::move(inner)), gap_(gap) {}
  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    RONDO_ASSIGN(auto endpoint, inner().OpenEndpoint(config));
    return std::make_unique<EndpointWithGap>(std::move(endpoint), gap_);
  }

 private:
  Gap& gap_;
};

class WaiterWithGap final : public Waiter {
 public:
  explicit WaiterWithGap(Gap& gap) : kernel_(clock_), gap_(gap) {}
  void Sleep(Endpoint& endpoint, int kick_fd, TimePoint deadline) override {
    if (gap_.unseen) gap_.slept = true;
    kernel_.Sleep(endpoint, kick_fd, deadline);
  }
  void Yield() override { kernel_.Yield(); }

 private:
  SteadyClock clock_;
  KernelWaiter kernel_;
  Gap& gap_;
};

TEST_CASE("an operation issued while the thread that makes progress is about to sleep is begun before it sleeps") {
  Gap gap;
  InprocNetwork network(2);
  const auto adjust = [&](CommunicatorOptions& options) {
    options.progress_thread = false;
    if (options.rank != 0) return;
    options.transport = std::make_shared<TransportWithGap>(options.transport, gap);
    options.waiter = std::make_shared<WaiterWithGap>(gap);
    options.wait_policy = WaitPolicy{};  // sleeps at once
  };
  const auto body = [&](Communicator& communicator) {
    float value = 1, received = 0;
    const auto sum = [&] { return communicator.AllReduceAsync(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum); };
    if (communicator.rank() == 1) {
      CHECK(sum().Wait());
      CHECK(communicator.Send(&value, 1, DataType::kFloat32, 0, 0));
      return;
    }
    std::thread driver([&] { CHECK(communicator.Recv(&received, 1, DataType::kFloat32, 1, 0)); });
    gap.due = true;
    gap.found.acquire();
    Work work = sum();
    gap.issued.release();
    CHECK(work.Wait());
    driver.join();
    CHECK(received == 2);
  };
  OnRanks(network, body, adjust);
  CHECK(!gap.slept);
}

// The clock and waiter of a process that is stopped for an hour during its first sleep.
struct StoppedProcess final : Clock, Waiter {
  TimePoint Now() const override { return clock.Now() + stopped_for.load(); }
  void Sleep(Endpoint& endpoint, int kick_fd, TimePoint deadline) override {
    kernel.Sleep(endpoint, kick_fd, deadline - stopped_for.load());
    if (slept.exchange(true)) return;
    stopped_for.store(std::chrono::hours(1));
    has_slept.release();
  }
  void Yield() override { kernel.Yield(); }
  bool SeesPauses() const override { return true; }

  SteadyClock clock;
  KernelWaiter kernel{clock};
  std::atomic<Duration> stopped_for{Duration::zero()};
  std::atomic<bool> slept{false};
  std::binary_semaphore has_slept{0};
};

TEST_CASE("the time for which a process was stopped is no time that its operations and messages had") {
  for (const bool message : {false, true}) {
    CAPTURE(message);
    const auto process = std::make_shared<StoppedProcess>();
    InprocNetwork network(2);
    const auto adjust = [&](CommunicatorOptions& options) {
      options.timeout = std::chrono::seconds(30);
      options.progress_thread = false;
      if (options.rank != 0) return;
      options.clock = process;
      options.waiter = process;
      options.wait_policy = WaitPolicy{};  // sleeps at once
    };
    const auto body = [&](Communicator& communicator) {
      float value = 1;
      if (communicator.rank() == 1) process->has_slept.acquire();
      const auto exchange = [&]() -> Status {
        if (!message) return communicator.AllReduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum);
        if (communicator.rank() == 1) return communicator.Send(&value, 1, DataType::kFloat32, 0, 0);
        RONDO_TRY(communicator.Recv(&value, 1, DataType::kFloat32, 1, 0));
        return {};
      };
      const Status done = exchange();
      CHECK_MESSAGE(done.has_value(), (done ? "" : done.error().ToString()));
      CHECK(communicator.Close());
    };
    OnRanks(network, body, adjust);
  }
}

TEST_CASE("the longest timeout there is does not overflow") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    CHECK(communicator.Barrier({.timeout = Duration::max()}));
    CHECK(communicator.Close());
  });
}

TEST_CASE("more pending operations than the limit are refused and the others still complete") {
  InprocNetwork network(2);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        std::vector<std::int32_t> values(5, 1);
        std::vector<Work> works;
        for (std::int32_t& value : values)
          works.push_back(communicator.AllReduceAsync(&value, &value, 1, DataType::kInt32, ReduceOp::kSum));
        const Status refused = works[4].Wait();
        CHECK((!refused && refused.error().code() == ErrorCode::kResource));
        for (std::size_t i = 0; i < 4; ++i) CHECK(works[i].Wait());
        CHECK(values == std::vector<std::int32_t>{2, 2, 2, 2, 1});
        CHECK(communicator.Close());
      },
      [](CommunicatorOptions& options) {
        options.max_pending_operations = 4;
        options.progress_thread = false;
      });
}

// A clock that advances when it is read, and when a thread yields or sleeps.
struct SteppedTime final : Clock, Waiter {
  explicit SteppedTime(Duration yield_takes) : yield_takes(yield_takes) {}
  TimePoint Now() const override { return now += std::chrono::nanoseconds(20); }
  void Yield() override { now += yield_takes; }
  void Sleep(Endpoint&, int, TimePoint deadline) override {
    if (!first_sleep) first_sleep = now;
    now = std::max(now, deadline);
  }
  const Duration yield_takes;
  mutable TimePoint now{};
  std::optional<TimePoint> first_sleep;
};

TEST_CASE("who spins and finds that others want the core gives it away at once, and longer before it sleeps") {
  const WaitPolicy spins{.spin = std::chrono::microseconds(200), .yield = {}};
  const auto first_sleep = [&](Duration yield_takes) {
    const auto time = std::make_shared<SteppedTime>(yield_takes);
    InprocNetwork network(2);
    CommunicatorOptions options;
    options.peers = IdentitiesOf(network);
    options.transport = network.transport(0);
    options.clock = time;
    options.waiter = time;
    options.wait_policy = spins;
    options.progress_thread = false;
    const auto communicator = Communicator::Create(std::move(options));
    REQUIRE(communicator);
    float value = 1;
    Work alone = (*communicator)->AllReduceAsync(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum);
    CHECK_FALSE(alone.Wait(time->now + std::chrono::milliseconds(10)));
    REQUIRE(time->first_sleep);
    return time->first_sleep->time_since_epoch();
  };
  const Duration alone = first_sleep(std::chrono::nanoseconds(300));
  CHECK(alone >= spins.spin);
  CHECK(alone < 2 * spins.spin);
  const Duration shared = first_sleep(std::chrono::microseconds(3));
  CHECK(shared >= WaitPolicy::YieldsAtOnce().yield);
  CHECK(shared < 2 * WaitPolicy::YieldsAtOnce().yield);
}

}  // namespace waiting_test
}  // namespace rondo
