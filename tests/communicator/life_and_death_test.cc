// How a communicator ends: Close, Abort, a rank that dies or is destroyed, and which errors the other ranks get.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <latch>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/fault_row.h"
#include "tests/support/ranks.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace life_and_death_test {

// doctest's asserts are thread-safe, but the rest of doctest is not. So every check here is on plain values, such as
// texts and numbers.

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

TEST_CASE("a rank that refuses its call and closes gives its reason to the ranks that wait for it in that call") {
  for (const bool by_a_binding : {false, true}) {
    CAPTURE(by_a_binding);
    InprocNetwork network(3);
    OnRanks(network, [&](Communicator& communicator) {
      CHECK(communicator.Barrier());
      float value = 1;
      Status status;
      if (communicator.rank() == 1) {
        if (by_a_binding)
          communicator.NoteRefusal("allreduce: TypeError: no array");
        else
          CHECK(!communicator.AllReduce(nullptr, &value, 1, DataType::kFloat32, ReduceOp::kSum));
        status = communicator.Close();
      } else {
        status = communicator.AllReduce(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum);
      }
      const std::string text = TextOf(status);
      CAPTURE(text);
      CHECK(text.find("mismatch: rank 1 refused a call of its program (") == 0);
      CHECK(text.find(by_a_binding ? "(allreduce: TypeError: no array)" : "(all_reduce: input is null") !=
            std::string::npos);
      CHECK(text.find("waits for it in #2 all_reduce float32 x 1 sum") != std::string::npos);
    });
  }
}

TEST_CASE("a refused call says nothing any more once another one was issued, nor where all ranks have refused it") {
  InprocNetwork network(2);
  OnRanks(network, [&](Communicator& communicator) {
    communicator.NoteRefusal("allreduce: TypeError: no array");
    CHECK(communicator.Barrier());
    const Status status = communicator.rank() == 0 ? communicator.Close() : communicator.Barrier();
    CHECK(TextOf(status).find("closed: rank 0 closed after #1 barrier") == 0);
  });
  InprocNetwork again(2);
  OnRanks(again, [&](Communicator& communicator) {
    float value = 1;
    CHECK(communicator.Barrier());
    CHECK(!communicator.AllReduce(nullptr, &value, 1, DataType::kFloat32, ReduceOp::kSum));
    CHECK(communicator.Close());
  });
}

TEST_CASE("a rank that leaves waits no longer than its patience, and ranks that close later end in order") {
  for (const Rank first : {0, 1}) {
    CAPTURE(first);
    InprocNetwork network(2);
    std::barrier<> left(2);
    OnRanks(network, [&](Communicator& communicator) {
      CHECK(communicator.Barrier());
      if (communicator.rank() == first) {
        CHECK(TextOf(communicator.Leave(std::chrono::milliseconds(10))) == "ok");
        CHECK(TextOf(communicator.Close()) == "ok");  // Close returns the status of Leave
      }
      left.arrive_and_wait();
      if (communicator.rank() != first) CHECK(TextOf(communicator.Close()) == "ok");
      left.arrive_and_wait();
    });
  }
}

TEST_CASE("a rank that has left is named by ranks that still need it") {
  InprocNetwork network(2);
  std::barrier<> left(2);
  OnRanks(network, [&](Communicator& communicator) {
    CHECK(communicator.Barrier());
    if (communicator.rank() == 0) CHECK(TextOf(communicator.Leave(std::chrono::milliseconds(10))) == "ok");
    left.arrive_and_wait();
    if (communicator.rank() == 1) {
      const std::string text = TextOf(communicator.Barrier());
      CAPTURE(text);
      CHECK(text.find("closed: rank 0 closed after #1 barrier") == 0);
    }
    left.arrive_and_wait();
  });
}

TEST_CASE("a rank that leaves with an operation under way fails it on all ranks") {
  InprocNetwork network(2);
  std::barrier<> left(2);
  OnRanks(network, [&](Communicator& communicator) {
    CHECK(communicator.Barrier());
    if (communicator.rank() == 0) {
      Work work = communicator.BarrierAsync();
      const std::string text = TextOf(communicator.Leave(std::chrono::milliseconds(50)));
      CAPTURE(text);
      CHECK(text.find("did not end within Close's 0.050 s") != std::string::npos);
      CHECK(work.Test().has_value());
    }
    left.arrive_and_wait();
    if (communicator.rank() == 1) CHECK(TextOf(communicator.Barrier()).find("timeout") == 0);
    left.arrive_and_wait();
  });
}

TEST_CASE("what has not ended in Close's time fails on all ranks, which name the one it waits for") {
  for (const bool message : {false, true}) {
    CAPTURE(message);
    InprocNetwork network(2);
    std::barrier<> closed(2);
    const auto adjust = [](CommunicatorOptions& options) { options.timeout = std::chrono::milliseconds(300); };
    const auto body = [&](Communicator& communicator) {
      constexpr Duration kLong = std::chrono::seconds(20);
      float value = 1;
      const auto sum = [&] {
        return communicator.AllReduceAsync(&value, &value, 1, DataType::kFloat32, ReduceOp::kSum, {.timeout = kLong});
      };
      CHECK(sum().Wait());
      Status status;
      if (communicator.rank() == 0) {
        Work work = message ? communicator.RecvAsync(&value, 1, DataType::kFloat32, 1, 0, {.timeout = kLong}) : sum();
        status = communicator.Close();
        CHECK(TextOf(status).find(message ? "none has arrived from rank 1" : "rank 0 waits for rank 1") !=
              std::string::npos);
        CHECK(TextOf(status).find("did not end within Close's 0.300 s") != std::string::npos);
        CHECK(work.Test().has_value());  // nothing uses `value` any more
      }
      closed.arrive_and_wait();
      if (communicator.rank() == 1) status = sum().Wait();
      CAPTURE(TextOf(status));
      CHECK((!status && status.error().code() == ErrorCode::kTimeout));
      CHECK((!status && status.error().culprit() == 1));
    };
    OnRanks(network, body, adjust);
  }
}

TEST_CASE("who closes and waits for ranks that wait themselves names the one that all wait for") {
  // On a busy machine a rank may get no core for 0.3 s at the wrong moment, and then counts as silent. So the test
  // tries again.
  int named = 0;
  for (int attempt = 0; attempt < 5 && named != 3; ++attempt) {
    InprocNetwork network(4);
    std::barrier<> failed(4);
    std::atomic<int> name_it{0};
    const auto body = [&](Communicator& communicator) {
      std::vector<float> values(1000, 1);
      const auto sum = [&](Duration timeout) {
        return communicator.AllReduceAsync(values.data(), values.data(), values.size(), DataType::kFloat32,
                                           ReduceOp::kSum, {.timeout = timeout, .algorithm = Algorithm::kRing});
      };
      CHECK(sum(std::chrono::seconds(20)).Wait());
      if (communicator.rank() != 1) {
        // Rank 2 waits for rank 1. Rank 3 waits for rank 2. The Close of rank 3 ends first.
        const bool closes = communicator.rank() == 3;
        Work work = sum(closes ? std::chrono::seconds(20) : std::chrono::milliseconds(1000));
        const Status status = closes ? communicator.Close() : work.Wait();
        CAPTURE(TextOf(status));
        CHECK((!status && status.error().code() == ErrorCode::kTimeout));
        if (!status && status.error().culprit() == 1) ++name_it;
      }
      failed.arrive_and_wait();
    };
    OnRanks(network, body, [](CommunicatorOptions& options) { options.timeout = std::chrono::milliseconds(900); });
    named = name_it;
  }
  CHECK(named == 3);
}

TEST_CASE("a goodbye received while nothing ran counts against the operation that needs the rank later") {
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
    CHECK(TextOf(status).find("rank 0 (rank 0 of group 0.1.0) destroyed its communicator without closing it") !=
          std::string::npos);
    StateFault(33, 1, {status}, {.path = "inproc"});
  });
}

TEST_CASE("abort fails pending and later operations here and on all other ranks, with the reason") {
  InprocNetwork network(3);
  std::mutex mutex;
  std::array<std::string, 3> pending, later;
  // without this latch, a rank that finishes early would abort the others' first operation
  std::latch all_have_the_sum(3);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<float> values(1000, 1);
    CHECK(communicator.AllReduce(values.data(), values.data(), 1000, DataType::kFloat32, ReduceOp::kSum));
    all_have_the_sum.arrive_and_wait();
    const auto at = static_cast<std::size_t>(communicator.rank());
    Status first;
    if (communicator.rank() == 0) {
      communicator.Abort("the loss is not a number");
      communicator.Abort("twice is once");
    }
    first = communicator.AllReduce(values.data(), values.data(), 1000, DataType::kFloat32, ReduceOp::kSum);
    const Status second = communicator.Barrier();
    const std::lock_guard lock(mutex);
    StateFault(32, 1, {first}, {.path = "inproc"});
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

// Returns the error of rank 1 if rank 0 aborts and ends before rank 1 connects to it.
std::string ErrorOfALateRank(const std::vector<std::shared_ptr<Transport>>& transports) {
  const auto make = [&](Rank rank) {
    CommunicatorOptions options;
    options.rank = rank;
    options.transport = transports[static_cast<std::size_t>(rank)];
    for (const auto& transport : transports)
      options.peers.push_back({.host_id = "here", .address = transport->Address()});
    auto communicator = Communicator::Create(std::move(options));
    REQUIRE(communicator);
    return *std::move(communicator);
  };
  auto first = make(0);
  auto second = make(1);
  std::thread ends([&] {
    first->Abort("there is no such file");
    first.reset();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so that rank 0 aborts first
  std::string text = TextOf(second->Barrier());
  ends.join();
  return text;
}

TEST_CASE("a rank that gives up before it has done anything waits a moment for others to come for the reason") {
  const InprocNetwork network(2);
  const std::vector<std::shared_ptr<Transport>> in_process = {network.transport(0), network.transport(1)};
  std::vector<std::shared_ptr<Transport>> over_tcp;
  for (int rank = 0; rank < 2; ++rank) {
    auto transport = MakeTcpTransport({.job = "abort_at_close", .host_id = LocalHostId()});
    REQUIRE(transport);
    over_tcp.push_back(*transport);
  }
  for (const auto& transports : {in_process, over_tcp}) {
    const std::string text = ErrorOfALateRank(transports);
    CAPTURE(text);
    CHECK(text.find("peer_aborted: rank 0 aborted: there is no such file") == 0);
  }
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

TEST_CASE("a rank that dies is named by all survivors, in this call or the next") {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree, Algorithm::kRecursiveDoubling}) {
    InprocNetwork network(4);
    std::mutex mutex;
    std::vector<std::string> texts;
    OnRanks(network, [&](Communicator& communicator) {
      std::vector<float> values(1000, 1);
      // Rank 2 may finish the first operation, and die, while others are still in it.
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
      StateFault(1, 1, {status}, {.path = "inproc"});
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

}  // namespace life_and_death_test
}  // namespace rondo
