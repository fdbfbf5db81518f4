// The communicator's contract (collectives/communicator.h), ranks as threads over the in-process transport.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "collectives/communicator.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstring>
#include <mutex>
#include <numeric>

#include "tests/communicator/ranks.h"
#include "tests/engine/late_mover.h"

namespace rondo {
namespace {

// doctest's CHECK may be used from several threads, but only its asserts; every check here is on plain values.

TEST_CASE("every rank holds the sum, in place and out of place, blocking and asynchronous") {
  for (const int ranks : {1, 2, 3, 4, 5}) {
    InprocNetwork network(ranks);
    OnRanks(network, [&](Communicator& communicator) {
      const int sum_of_ranks = ranks * (ranks - 1) / 2;
      for (const std::size_t count : {0, 1, 5, 1000, 100'000}) {
        std::vector<std::int32_t> input(count), output(count);
        for (std::size_t i = 0; i < count; ++i) input[i] = communicator.rank() + static_cast<int>(i);
        const std::vector<std::int32_t> untouched = input;
        CHECK(communicator.AllReduce(input.data(), output.data(), count, DataType::kInt32, ReduceOp::kSum));
        bool right = true;
        for (std::size_t i = 0; i < count; ++i) right &= output[i] == sum_of_ranks + ranks * static_cast<int>(i);
        CHECK(right);
        CHECK(input == untouched);
        Work work = communicator.AllReduceAsync(input.data(), input.data(), count, DataType::kInt32, ReduceOp::kSum);
        CHECK(work.Wait());
        CHECK(input == output);
      }
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("a broadcast gives everybody the root's values, from every root") {
  InprocNetwork network(4);
  OnRanks(network, [&](Communicator& communicator) {
    for (Rank root = 0; root < 4; ++root) {
      std::vector<double> values(777, communicator.rank() * 1.5);
      const void* input = communicator.rank() == root ? values.data() : nullptr;
      CHECK(communicator.Broadcast(input, values.data(), values.size(), DataType::kFloat64, root));
      CHECK(values == std::vector<double>(777, root * 1.5));
    }
    CHECK(communicator.Close());
  });
}

TEST_CASE("no rank leaves a barrier before every rank has entered") {
  for (const int ranks : {2, 3, 5}) {
    InprocNetwork network(ranks);
    std::atomic<int> entered{0};
    OnRanks(network, [&](Communicator& communicator) {
      for (int round = 1; round <= 200; ++round) {
        entered.fetch_add(1);
        CHECK(communicator.Barrier());
        CHECK(entered.load() >= round * ranks);
      }
      CHECK(communicator.Close());
    });
  }
}

TEST_CASE("back-to-back asynchronous operations on one buffer happen one after the other") {
  InprocNetwork network(3);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<std::int64_t> values(100, 1);
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i)
      works.push_back(
          communicator.AllReduceAsync(values.data(), values.data(), values.size(), DataType::kInt64, ReduceOp::kSum));
    CHECK(works.back().Wait());
    std::int64_t expected = 1;
    for (int i = 0; i < 20; ++i) expected *= 3;
    CHECK(values == std::vector<std::int64_t>(100, expected));
    for (Work& work : works) {
      const std::optional<Status> status = work.Test();
      CHECK((status && *status));
    }
    CHECK(communicator.Close());
  });
}

TEST_CASE("wrong arguments are refused at the call and poison nothing") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    std::array<float, 8> a{}, b{};
    const auto code = [](const Status& status) { return status ? ErrorCode::kInternal : status.error().code(); };
    CHECK(code(communicator.AllReduce(a.data(), b.data(), 8, DataType::kFloat32, ReduceOp::kBand)) ==
          ErrorCode::kInvalidArgument);
    CHECK(code(communicator.AllReduce(nullptr, b.data(), 8, DataType::kFloat32, ReduceOp::kSum)) ==
          ErrorCode::kInvalidArgument);
    CHECK(code(communicator.AllReduce(a.data(), a.data() + 4, 8, DataType::kFloat32, ReduceOp::kSum)) ==
          ErrorCode::kInvalidArgument);
    CHECK(code(communicator.AllReduce(a.data(), b.data(), ~std::uint64_t{0} / 2, DataType::kFloat32, ReduceOp::kSum)) ==
          ErrorCode::kInvalidArgument);
    CHECK(code(communicator.Broadcast(a.data(), b.data(), 8, DataType::kFloat32, 2)) == ErrorCode::kInvalidArgument);
    CHECK(code(communicator.AllReduce(a.data(), b.data(), 8, DataType::kFloat32, ReduceOp::kSum,
                                      {.algorithm = Algorithm::kDissemination})) == ErrorCode::kInvalidArgument);
    Work refused = communicator.BroadcastAsync(a.data(), b.data(), 8, DataType::kFloat32, -1);
    CHECK(code(refused.Wait()) == ErrorCode::kInvalidArgument);
    CHECK(refused.sequence() == 0);
    CHECK(communicator.AllReduce(a.data(), b.data(), 8, DataType::kFloat32, ReduceOp::kSum));
    CHECK(communicator.Close());
  });
}

TEST_CASE("ranks in different operations all end with an error that names both, also the one that had returned") {
  for (const int ranks : {2, 4}) {
    InprocNetwork network(ranks);
    std::mutex mutex;
    std::vector<std::string> texts;
    OnRanks(network, [&](Communicator& communicator) {
      std::vector<float> values(16);
      // Rank 1 broadcasts from itself, which is only sending: it may return before anybody notices.
      Status status =
          communicator.rank() == 1
              ? communicator.Broadcast(values.data(), values.data(), 16, DataType::kFloat32, 1)
              : communicator.AllReduce(values.data(), values.data(), 16, DataType::kFloat32, ReduceOp::kSum);
      if (status) status = communicator.Close();
      const std::lock_guard lock(mutex);
      texts.push_back(TextOf(status));
    });
    for (const std::string& text : texts) {
      CAPTURE(text);
      CHECK(text.find("mismatch") == 0);
      CHECK(text.find("all_reduce float32 x 16 sum") != std::string::npos);
      CHECK(text.find("broadcast float32 x 16 from rank 1") != std::string::npos);
    }
  }
}

TEST_CASE("unequal counts are told to all ranks with both counts") {
  InprocNetwork network(3);
  std::mutex mutex;
  std::vector<std::string> texts;
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> values(32);
    Status status = communicator.AllReduce(values.data(), values.data(), communicator.rank() == 2 ? 17 : 16,
                                           DataType::kFloat32, ReduceOp::kSum);
    if (status) status = communicator.Close();
    const std::lock_guard lock(mutex);
    texts.push_back(TextOf(status));
  });
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(text.find("mismatch") == 0);
    CHECK(text.find("x 16 ") != std::string::npos);
    CHECK(text.find("x 17 ") != std::string::npos);
  }
}

TEST_CASE("ranks that wait for each other in different operations learn it although no bytes flow") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> values(16);
    // Each takes the other for the root.
    const Status status =
        communicator.Broadcast(values.data(), values.data(), 16, DataType::kFloat32, 1 - communicator.rank());
    CAPTURE(TextOf(status));
    CHECK(TextOf(status).find("mismatch") == 0);
    CHECK(TextOf(status).find("broadcast float32 x 16 from rank 0") != std::string::npos);
    CHECK(TextOf(status).find("broadcast float32 x 16 from rank 1") != std::string::npos);
  });
}

TEST_CASE("operations that only sent are compared when the communicators close") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> values(16);
    // Each takes itself for the root, sends, and returns.
    CHECK(communicator.Broadcast(values.data(), values.data(), 16, DataType::kFloat32, communicator.rank()));
    const Status status = communicator.Close();
    CAPTURE(TextOf(status));
    CHECK(TextOf(status).find("mismatch") == 0);
    CHECK(TextOf(status).find("broadcast float32 x 16 from rank 0") != std::string::npos);
    CHECK(TextOf(status).find("broadcast float32 x 16 from rank 1") != std::string::npos);
  });
}

TEST_CASE("a rank that dies is named by all survivors, in this call or the next") {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveDoubling}) {
    InprocNetwork network(4);
    std::mutex mutex;
    std::vector<std::string> texts;
    OnRanks(network, [&](Communicator& communicator) {
      std::vector<float> values(1000, 1);
      // Rank 2 may be through with the first one, and dead, while others are still in it.
      Status status = communicator.AllReduce(values.data(), values.data(), 1000, DataType::kFloat32, ReduceOp::kSum,
                                             {.algorithm = algorithm});
      if (communicator.rank() == 2) {
        network.Kill(2);
        return;
      }
      if (status)
        status = communicator.AllReduce(values.data(), values.data(), 1000, DataType::kFloat32, ReduceOp::kSum,
                                        {.algorithm = algorithm});
      if (status) status = communicator.Close();
      const std::lock_guard lock(mutex);
      texts.push_back(TextOf(status));
    });
    CHECK(texts.size() == 3);
    for (const std::string& text : texts) {
      CAPTURE(text);
      CHECK(text.find("peer_lost") == 0);
      CHECK(text.find("caused by rank 2 (host host2") != std::string::npos);
    }
  }
}

TEST_CASE("abort fails pending and later operations here and on all other ranks, with the reason") {
  InprocNetwork network(3);
  std::mutex mutex;
  std::array<std::string, 3> pending, later;
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> values(1000, 1);
    CHECK(communicator.AllReduce(values.data(), values.data(), 1000, DataType::kFloat32, ReduceOp::kSum));
    const auto at = static_cast<std::size_t>(communicator.rank());
    Status first;
    if (communicator.rank() == 0) {
      communicator.Abort("the loss is not a number");
      communicator.Abort("twice is once");
    }
    first = communicator.AllReduce(values.data(), values.data(), 1000, DataType::kFloat32, ReduceOp::kSum);
    const Status second = communicator.Barrier();
    const std::lock_guard lock(mutex);
    pending[at] = TextOf(first);
    later[at] = TextOf(second);
  });
  for (std::size_t r = 0; r < 3; ++r) {
    CAPTURE(r);
    CAPTURE(pending[r]);
    CHECK(pending[r].find(r == 0 ? "aborted" : "peer_aborted") == 0);
    CHECK(pending[r].find("the loss is not a number") != std::string::npos);
    CHECK(later[r].find("the loss is not a number") != std::string::npos);
  }
}

TEST_CASE("an operation ends within its timeout and says who is missing") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      // Alive but elsewhere, until the other has given up.
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
  });
}

TEST_CASE("a Wait that ends early returns not_ready and poisons nothing") {
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

TEST_CASE("operations nobody waits for are driven by the progress thread, callbacks may run collectives") {
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
      std::vector<std::thread> waiters;
      std::atomic<int> good{0};
      for (std::size_t t = 0; t < 4; ++t)
        waiters.emplace_back([&, t] {
          for (std::size_t i = t; i < kOperations; i += 4)
            if (works[i].Wait() && values[i] == 2) good.fetch_add(1);
        });
      for (std::thread& waiter : waiters) waiter.join();
      CHECK(good.load() == static_cast<int>(kOperations));
    }
    CHECK(communicator.Close());
  });
}

TEST_CASE("split makes groups by color, ordered by key, that work side by side with their parent") {
  InprocNetwork network(5);
  OnRanks(network, [&](Communicator& communicator) {
    const Rank rank = communicator.rank();
    auto group = communicator.Split(rank == 4 ? -1 : rank % 2, -rank);
    REQUIRE(group);
    if (rank == 4) {
      CHECK(*group == nullptr);
    } else {
      CHECK((*group)->world_size() == 2);
      CHECK((*group)->rank() == (rank < 2 ? 1 : 0));  // the higher old rank has the lower key
      std::int32_t value = rank;
      CHECK((*group)->AllReduce(&value, &value, 1, DataType::kInt32, ReduceOp::kSum));
      CHECK(value == (rank % 2 == 0 ? 2 : 4));
    }
    CHECK(communicator.Barrier());
    auto all = communicator.Split(7, rank);
    REQUIRE(all);
    std::int32_t one = 1;
    CHECK((*all)->AllReduce(&one, &one, 1, DataType::kInt32, ReduceOp::kSum));
    CHECK(one == 5);
    if (*group != nullptr) CHECK((*group)->Close());
    CHECK((*all)->Close());
    CHECK(communicator.Close());
  });
}

TEST_CASE("aborting a communicator aborts those split from it") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    auto child = communicator.Split(0, communicator.rank());
    REQUIRE(child);
    CHECK((*child)->Barrier());
    if (communicator.rank() == 0) communicator.Abort("parent first");
    const Status status = (*child)->Barrier();
    CAPTURE(TextOf(status));
    CHECK(TextOf(status).find("parent first") != std::string::npos);
  });
}

TEST_CASE("after Close every call is refused, and a second Close returns what the first did") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    CHECK(communicator.Barrier());
    CHECK(communicator.Close());
    CHECK(communicator.Close());
    const Status status = communicator.Barrier();
    CHECK((!status && status.error().code() == ErrorCode::kClosed));
  });
}

TEST_CASE("a rank that closed too early is named by those who still need it") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    CHECK(communicator.Barrier());
    Status status = communicator.rank() == 0 ? communicator.Close() : communicator.Barrier();
    CAPTURE(TextOf(status));
    CHECK(TextOf(status).find("closed") == 0);
    CHECK(TextOf(status).find("rank 0 closed after #1 barrier") != std::string::npos);
    CHECK(TextOf(status).find("rank 1 waits for it in #2 barrier") != std::string::npos);
  });
}

TEST_CASE("a communicator destroyed without Close tells its peers") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    auto child = communicator.Split(0, communicator.rank());
    REQUIRE(child);
    CHECK((*child)->Barrier());
    if (communicator.rank() == 0) {
      child->reset();
      return;
    }
    const Status status = (*child)->Barrier();
    CAPTURE(TextOf(status));
    CHECK(TextOf(status).find("rank 0 destroyed its communicator without closing it") != std::string::npos);
  });
}

TEST_CASE("a rank that comes to a failed communicator late is told the first cause") {
  // Ranks 0 and 1 disagree and have ended before rank 2 issues anything; it had no connection to either.
  InprocNetwork network(3);
  std::barrier<> failed(3);
  std::atomic<bool> told{false};
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> values(4);
    if (communicator.rank() < 2) {
      const Status status = communicator.AllReduce(values.data(), values.data(), communicator.rank() == 0 ? 3 : 4,
                                                   DataType::kFloat32, ReduceOp::kSum, {.algorithm = Algorithm::kTree});
      CHECK(TextOf(status).find("mismatch") == 0);
      failed.arrive_and_wait();
      while (!told.load()) communicator.Progress();  // alive: it hears the late comer
      return;
    }
    failed.arrive_and_wait();
    const Status status = communicator.AllReduce(values.data(), values.data(), 4, DataType::kFloat32, ReduceOp::kSum,
                                                 {.algorithm = Algorithm::kTree});
    CAPTURE(TextOf(status));
    told.store(true);
    CHECK(TextOf(status).find("mismatch") == 0);
    CHECK(TextOf(status).find("x 3 ") != std::string::npos);
  });
}

TEST_CASE("a goodbye heard while nothing ran counts against the operation that needs the rank later") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    CHECK(communicator.Barrier());
    if (communicator.rank() == 0) {
      CHECK(TextOf(communicator.Close()).find("closed: rank 0 closed after #1 barrier") == 0);
      return;
    }
    const auto listen_until = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (std::chrono::steady_clock::now() < listen_until) communicator.Progress();
    const Status status = communicator.Barrier();
    CAPTURE(TextOf(status));
    CHECK(TextOf(status).find("closed: rank 0 closed after #1 barrier") == 0);
  });
}

TEST_CASE("a Work and a parent's Abort may outlive the communicator they name") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    auto child = communicator.Split(0, communicator.rank());
    REQUIRE(child);
    Work work = (*child)->BarrierAsync();
    CHECK(work.Wait());
    CHECK((*child)->Close());
    child->reset();
    CHECK(communicator.Barrier());
    const std::optional<Status> status = work.Test();
    CHECK((status && *status));
    if (communicator.rank() == 0) communicator.Abort("after the child is gone");
    CHECK(TextOf(communicator.Barrier()).find("after the child is gone") != std::string::npos);
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
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(5));
  });
}

TEST_CASE("the longest timeout there is does not overflow") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    CHECK(communicator.Barrier({.timeout = Duration::max()}));
    CHECK(communicator.Close());
  });
}

TEST_CASE("a mover that works late is waited for") {
  InprocNetwork network(2);
  OnRanks(
      network,
      [&](Communicator& communicator) {
        std::vector<std::int32_t> values(3000, 1);
        for (int i = 0; i < 3; ++i)
          CHECK(communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kInt32, ReduceOp::kMax));
        CHECK(values[2999] == 1);
        CHECK(communicator.Close());
      },
      [](CommunicatorOptions& options) { options.make_mover = [] { return std::make_unique<LateMover>(5); }; });
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

TEST_CASE("allocated memory serves as a buffer and registrations end with their owner") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    auto memory = communicator.Allocate(4096);
    REQUIRE(memory);
    const MutableBytes bytes = (*memory)->bytes();
    CHECK(bytes.size() == 4096);
    auto* values = reinterpret_cast<std::int32_t*>(bytes.data());
    std::fill_n(values, 1024, 3);
    auto registration = communicator.Register(bytes);
    CHECK(registration);
    CHECK(communicator.AllReduce(values, values, 1024, DataType::kInt32, ReduceOp::kMax));
    CHECK(values[1023] == 3);
    CHECK(communicator.Close());
  });
}

TEST_CASE("the results have the same bits on every rank and in every repetition") {
  InprocNetwork network(5);
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> results;
  OnRanks(network, [&](Communicator& communicator) {
    for (const Algorithm algorithm :
         {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveDoubling, Algorithm::kRecursiveHalving}) {
      std::vector<std::uint32_t> bits;
      for (int repetition = 0; repetition < 3; ++repetition) {
        std::vector<float> values(999);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = 1.0f / static_cast<float>(1 + i * 7 + 13 * static_cast<std::size_t>(communicator.rank()));
        CHECK(communicator.AllReduce(values.data(), values.data(), values.size(), DataType::kFloat32, ReduceOp::kSum,
                                     {.algorithm = algorithm}));
        std::vector<std::uint32_t> now(values.size());
        std::memcpy(now.data(), values.data(), 4 * values.size());
        if (repetition > 0) CHECK(now == bits);
        bits = now;
      }
      const std::lock_guard lock(mutex);
      bits.push_back(static_cast<std::uint32_t>(algorithm));
      results.push_back(bits);
    }
    CHECK(communicator.Close());
  });
  for (const auto& a : results)
    for (const auto& b : results)
      if (a.back() == b.back()) CHECK(a == b);
}

}  // namespace
}  // namespace rondo
