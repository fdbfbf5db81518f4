// Tests that Send and Recv do what collectives/communicator.h promises, over lanes that behave in every allowed way,
// and over TCP on loopback. Ranks are threads of one process.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <map>
#include <numeric>
#include <thread>

#include "base/random.h"
#include "tests/support/ranks.h"
#include "tests/support/threads.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace messages_test {

constexpr DataType kInt = DataType::kInt32;
// A long time, because a busy machine is slow. No test waits until it is over.
constexpr Duration kPatience = std::chrono::seconds(60);

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
template <typename T>
std::string ErrorOf(const Result<T>& result) {
  return result ? "ok" : result.error().ToString();
}

// Creates ranks that are connected over TCP.
RankJob TcpJob(int ranks, std::function<void(CommunicatorOptions&)> adjust = nullptr) {
  std::vector<std::shared_ptr<Transport>> transports;
  for (int r = 0; r < ranks; ++r) {
    auto transport = MakeTcpTransport({.job = "messages", .host_id = LocalHostId()});
    REQUIRE(transport);
    transports.push_back(*transport);
  }
  return {
      .transports = transports, .peers = IdentitiesOf(transports), .timeout = kPatience, .adjust = std::move(adjust)};
}

void OnEveryTransport(int ranks, const std::function<void(Communicator&)>& body,
                      const std::function<void(CommunicatorOptions&)>& adjust = nullptr) {
  for (const InprocOptions& options :
       {InprocOptions{}, InprocOptions{.late_release = true, .slice_bytes = 3000, .reluctant = true},
        InprocOptions{.ring_bytes = 32 * 1024, .reluctant = true, .slow_connect_polls = 5}}) {
    CAPTURE(options.ring_bytes);
    CAPTURE(options.reluctant);
    InprocNetwork network(ranks, options);
    OnRanks(network, body, [&](CommunicatorOptions& own) {
      own.timeout = kPatience;
      if (adjust) adjust(own);
    });
  }
  CAPTURE("over TCP");
  OnRanks(TcpJob(ranks, adjust), body);
}

std::vector<std::int32_t> Values(std::size_t count, int first) {
  std::vector<std::int32_t> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST_CASE("messages of any length go from rank to rank, blocking") {
  OnEveryTransport(2, [](Communicator& communicator) {
    for (const std::size_t count : {0, 1, 100, 8192, 8193, 300'000}) {
      std::vector<std::int32_t> got(count + 3, -1);
      const std::vector<std::int32_t> sent = Values(count, 5);
      if (communicator.rank() == 0) {
        CHECK(communicator.Send(sent.data(), count, kInt, 1, 3));
        const auto back = communicator.Recv(got.data(), got.size(), kInt, 1, 4);
        CHECK(ErrorOf(back) == "ok");
        CHECK(*back == Message{1, 4, kInt, count});
      } else {
        const auto there = communicator.Recv(got.data(), got.size(), kInt, 0, 3);
        CHECK(ErrorOf(there) == "ok");
        CHECK(*there == Message{0, 3, kInt, count});
        CHECK(communicator.Send(got.data(), count, kInt, 0, 4));
      }
      CHECK(std::equal(sent.begin(), sent.end(), got.begin()));
      CHECK(std::count(got.begin(), got.end(), -1) == 3);
    }
    CHECK(ErrorOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("only the lower rank sends, only the higher rank sends: the lane is made either way") {
  for (const Rank sender : {0, 1}) {
    OnEveryTransport(2, [sender](Communicator& communicator) {
      std::int32_t value = 42;
      if (communicator.rank() == sender) {
        CHECK(ErrorOf(communicator.Send(&value, 1, kInt, 1 - sender, 0)) == "ok");
      } else {
        std::int32_t got = 0;
        const auto message = communicator.Recv(&got, 1, kInt, kAnyRank, kAnyTag);
        CHECK(ErrorOf(message) == "ok");
        CHECK(got == 42);
        CHECK(message->source == sender);
      }
      CHECK(ErrorOf(communicator.Close()) == "ok");
    });
  }
}

TEST_CASE("a ring of SendRecv of any length does not wait for itself") {
  OnEveryTransport(4, [](Communicator& communicator) {
    const int ranks = communicator.world_size();
    const Rank next = (communicator.rank() + 1) % ranks, previous = (communicator.rank() + ranks - 1) % ranks;
    for (const std::size_t count : {1, 100'000}) {
      const std::vector<std::int32_t> mine = Values(count, 1000 * communicator.rank());
      std::vector<std::int32_t> got(count);
      for (int round = 0; round < 5; ++round) {
        const auto message =
            communicator.SendRecv({mine.data(), count, next, round}, {got.data(), count, previous, round}, kInt);
        CHECK(ErrorOf(message) == "ok");
        CHECK(got == Values(count, 1000 * previous));
      }
    }
    CHECK(ErrorOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("many messages under way at once, tags received in another order") {
  OnEveryTransport(3, [](Communicator& communicator) {
    constexpr int kMessages = 60;
    const Rank rank = communicator.rank();
    std::vector<std::vector<std::int32_t>> out, in;
    std::vector<Work> works;
    for (Rank peer = 0; peer < 3; ++peer)
      for (int i = 0; i < kMessages; ++i) {
        out.push_back(Values(static_cast<std::size_t>(i) * static_cast<std::size_t>(i) * 5, rank * 10 + i));
        in.emplace_back(out.back().size());
      }
    for (Rank peer = 0; peer < 3; ++peer)
      for (int i = 0; i < kMessages; ++i) {
        const auto at = static_cast<std::size_t>(peer) * kMessages + static_cast<std::size_t>(i);
        works.push_back(communicator.SendAsync(out[at].data(), out[at].size(), kInt, peer, i));
      }
    for (int i = kMessages - 1; i >= 0; --i)
      for (Rank peer = 0; peer < 3; ++peer) {
        const auto at = static_cast<std::size_t>(peer) * kMessages + static_cast<std::size_t>(i);
        works.push_back(communicator.RecvAsync(in[at].data(), in[at].size(), kInt, peer, i));
      }
    for (Work& work : works) CHECK(TextOf(work.Wait()) == "ok");
    for (Rank peer = 0; peer < 3; ++peer)
      for (int i = 0; i < kMessages; ++i) {
        const auto at = static_cast<std::size_t>(peer) * kMessages + static_cast<std::size_t>(i);
        CHECK(in[at] == Values(in[at].size(), peer * 10 + i));
      }
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("a server receives from four clients that send all the time, from any rank, and answers each") {
  OnEveryTransport(5, [](Communicator& communicator) {
    constexpr int kRequests = 60;
    if (communicator.rank() == 0) {
      std::map<Rank, int> received;
      std::vector<std::int32_t> request(20'000);
      for (int i = 0; i < 4 * kRequests; ++i) {
        const auto message = communicator.Recv(request.data(), request.size(), kInt, kAnyRank, kAnyTag);
        REQUIRE(message);
        CHECK(message->tag == received[message->source]++);
        CHECK(request[0] == message->source);
        const auto last = static_cast<std::int32_t>(message->count);
        CHECK(request[message->count - 1] == message->source + last - 1);
        CHECK(communicator.Send(&last, 1, kInt, message->source, 1000));
      }
      for (const auto& [rank, count] : received) CHECK(count == kRequests);
    } else {
      Random random(static_cast<std::uint64_t>(communicator.rank()));
      for (int i = 0; i < kRequests; ++i) {
        const std::vector<std::int32_t> request = Values(1 + random.Below(20'000), communicator.rank());
        CHECK(communicator.Send(request.data(), request.size(), kInt, 0, i));
        std::int32_t answer = 0;
        CHECK(communicator.Recv(&answer, 1, kInt, 0, 1000));
        CHECK(answer == static_cast<std::int32_t>(request.size()));
      }
    }
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("messages and collectives go on side by side") {
  OnEveryTransport(3, [](Communicator& communicator) {
    const Rank rank = communicator.rank();
    std::vector<std::int32_t> large(50'000, rank), got(50'000);
    for (int round = 0; round < 20; ++round) {
      // Every rank sends to the next rank before the collective, and receives from the previous rank after it.
      Work sent = communicator.SendAsync(large.data(), large.size(), kInt, (rank + 1) % 3, round);
      std::int32_t sum = rank;
      CHECK(communicator.AllReduce(&sum, &sum, 1, kInt, ReduceOp::kSum));
      CHECK(sum == 3);
      const auto message = communicator.Recv(got.data(), got.size(), kInt, (rank + 2) % 3, round);
      CHECK(ErrorOf(message) == "ok");
      CHECK(got[49'999] == (rank + 2) % 3);
      CHECK(TextOf(sent.Wait()) == "ok");
    }
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("a Work of a receive says who sent how much, by Wait, Test and Then") {
  InprocNetwork network(2);
  OnRanks(network, [](Communicator& communicator) {
    std::array<std::int32_t, 4> values{1, 2, 3, 4}, got{};
    if (communicator.rank() == 1) {
      for (const Tag tag : {5, 6, 7}) CHECK(communicator.Send(values.data(), 2, kInt, 0, tag));
    } else {
      Work waited = communicator.RecvAsync(got.data(), 4, kInt, kAnyRank, 5);
      CHECK(waited.sequence() == 0);
      CHECK(TextOf(waited.Wait()) == "ok");
      CHECK(waited.message() == Message{1, 5, kInt, 2});

      Work tested = communicator.RecvAsync(got.data(), 4, kInt, 1, 6);
      while (!tested.Test()) std::this_thread::yield();
      CHECK(tested.message() == Message{1, 6, kInt, 2});

      std::atomic<bool> called{false};
      Work then = communicator.RecvAsync(got.data(), 4, kInt, 1, kAnyTag);
      then.Then([&](const Status& status) {
        CHECK(status);
        called.store(true);
        called.notify_all();
      });
      called.wait(false);
      CHECK(then.message() == Message{1, 7, kInt, 2});

      Work refused = communicator.RecvAsync(got.data(), 4, kInt, 9, 0);
      CHECK(Has(TextOf(refused.Wait()), "invalid_argument: rank 9 is outside 0..1"));
      CHECK_FALSE(refused.message());
    }
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("a callback is run though another receive stays open, and may send and receive itself") {
  InprocNetwork network(2);
  OnRanks(network, [](Communicator& communicator) {
    std::int32_t value = 1, got = 0, open = 0;
    if (communicator.rank() == 1) {
      CHECK(communicator.Recv(&got, 1, kInt, 0, 2));
      CHECK(communicator.Send(&value, 1, kInt, 0, 1));
      CHECK(communicator.Recv(&got, 1, kInt, 0, 3));
      CHECK(communicator.Send(&value, 1, kInt, 0, 4));
    } else {
      std::atomic<bool> called{false};
      Work stays = communicator.RecvAsync(&open, 1, kInt, 1, 4);
      Work first = communicator.RecvAsync(&got, 1, kInt, 1, 1);
      first.Then([&](const Status& status) {
        CHECK(status);
        CHECK(communicator.Send(&value, 1, kInt, 1, 3));
        called.store(true);
        called.notify_all();
      });
      CHECK(communicator.Send(&value, 1, kInt, 1, 2));
      called.wait(false);
      CHECK(TextOf(stays.Wait()) == "ok");
    }
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("wrong arguments are refused at the call and fail nothing else") {
  InprocNetwork network(2);
  OnRanks(network, [](Communicator& communicator) {
    std::int32_t value = 0;
    CHECK(Has(TextOf(communicator.Send(&value, 1, kInt, 2, 0)), "invalid_argument: rank 2 is outside 0..1"));
    CHECK(Has(TextOf(communicator.Send(&value, 1, kInt, kAnyRank, 0)), "invalid_argument"));
    CHECK(Has(TextOf(communicator.Send(&value, 1, kInt, 1, kAnyTag)), "invalid_argument: tag -1 is below 0"));
    CHECK(Has(TextOf(communicator.Send(nullptr, 1, kInt, 1, 0)), "invalid_argument: the buffer is null"));
    CHECK(Has(ErrorOf(communicator.Recv(&value, 1, kInt, 0, -2)), "invalid_argument: tag -2 is below 0"));
    CHECK(Has(ErrorOf(communicator.Recv(&value, ~std::uint64_t{0}, kInt, 0, 0)), "more than memory can hold"));
    CHECK(Has(ErrorOf(communicator.Recv(&value, 1, kInt, 0, 0, {.timeout = Duration::zero()})), "must be positive"));
    CHECK(communicator.Barrier());
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("two ranks that both send a large message first wait for each other, say so in time, and go on") {
  InprocNetwork network(2);
  std::barrier<> both(2);
  OnRanks(network, [&](Communicator& communicator) {
    const Rank other = 1 - communicator.rank();
    std::vector<std::int32_t> mine(100'000, communicator.rank()), got(100'000);
    const Status sent =
        communicator.Send(mine.data(), mine.size(), kInt, other, 5, {.timeout = std::chrono::milliseconds(300)});
    CAPTURE(TextOf(sent));
    CHECK(Has(TextOf(sent), "timeout: send of int32 x 100000 to rank " + std::to_string(other) + " with tag 5"));
    CHECK(Has(TextOf(sent), "has posted no receive for it"));
    both.arrive_and_wait();
    CHECK(ErrorOf(communicator.SendRecv({mine.data(), mine.size(), other, 5}, {got.data(), got.size(), other, 5},
                                        kInt)) == "ok");
    CHECK(got[99'999] == other);
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("a receive that no rank answers ends in time, names the rank that it waited for, and fails nothing else") {
  InprocNetwork network(2);
  std::barrier<> late(2);
  OnRanks(network, [&](Communicator& communicator) {
    std::int32_t value = 7;
    if (communicator.rank() == 0) {
      const auto named = communicator.Recv(&value, 1, kInt, 1, 9, {.timeout = std::chrono::milliseconds(100)});
      CAPTURE(ErrorOf(named));
      CHECK(Has(ErrorOf(named), "timeout: receive of up to int32 x 1 from rank 1 with tag 9"));
      CHECK(Has(ErrorOf(named), "none has arrived from rank 1"));
      CHECK(Has(ErrorOf(named), "caused by rank 1 (host host1)"));
      const auto any = communicator.Recv(&value, 1, kInt, kAnyRank, 9, {.timeout = std::chrono::milliseconds(50)});
      CHECK(Has(ErrorOf(any), "none has arrived from any rank"));
      Work early = communicator.RecvAsync(&value, 1, kInt, 1, 9);
      const Status not_ready = early.Wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
      CHECK(Has(TextOf(not_ready), "not_ready"));
      late.arrive_and_wait();
      CHECK(TextOf(early.Wait()) == "ok");
      CHECK(value == 8);
    } else {
      late.arrive_and_wait();
      value = 8;
      CHECK(communicator.Send(&value, 1, kInt, 0, 9));
    }
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("a rank that dies is named by each rank that waits for its messages") {
  for (const bool any : {false, true}) {
    InprocNetwork network(3);
    std::barrier<> met(3);
    OnRanks(network, [&](Communicator& communicator) {
      std::int32_t value = 0;
      CHECK(communicator.Barrier());
      met.arrive_and_wait();
      if (communicator.rank() == 2) {
        network.Kill(2);
        return;
      }
      const auto message = communicator.Recv(&value, 1, kInt, any ? kAnyRank : 2, 0);
      CAPTURE(ErrorOf(message));
      CHECK(Has(ErrorOf(message), "peer_lost"));
      CHECK(Has(ErrorOf(message), "caused by rank 2 (host host2"));
      CHECK(Has(ErrorOf(message), "in receive of up to int32 x 1 from"));
      const Status later = communicator.Send(&value, 1, kInt, 1 - communicator.rank(), 0);
      CHECK(Has(TextOf(later), "caused by rank 2"));
    });
  }
}

TEST_CASE("a rank that dies in the midst of a transfer over TCP is named by the other end") {
  // There are several transfers, because some may complete before the abort, on one rank or on both. The first transfer
  // that does not complete is checked.
  constexpr int kTransfers = 16;
  for (const bool receiving : {true, false}) {
    OnRanks(TcpJob(2), [&](Communicator& communicator) {
      std::vector<std::int32_t> values(4'000'000);
      if (communicator.rank() == 1) {
        // Rank 1 begins its transfers, and aborts while they run.
        std::vector<Work> works;
        for (int i = 0; i < kTransfers; ++i) {
          works.push_back(receiving ? communicator.SendAsync(values.data(), values.size(), kInt, 0, 0)
                                    : communicator.RecvAsync(values.data(), values.size(), kInt, 0, 0));
        }
        std::int32_t begun = 0;
        CHECK(communicator.Recv(&begun, 1, kInt, 0, 1));
        communicator.Abort("power failure");
        CHECK(Has(TextOf(works.back().Wait()), "power failure"));
        return;
      }
      std::int32_t begun = 1;
      CHECK(communicator.Send(&begun, 1, kInt, 1, 1));
      Status status;
      while (status) {
        if (receiving) {
          const auto message = communicator.Recv(values.data(), values.size(), kInt, 1, 0);
          status = message ? Status{} : Status(Fail(message.error()));
        } else {
          status = communicator.Send(values.data(), values.size(), kInt, 1, 0);
        }
      }
      CAPTURE(TextOf(status));
      CHECK(Has(TextOf(status), "peer_aborted: rank 1 aborted: power failure"));
    });
  }
}

TEST_CASE("abort ends sends and receives here and there, with the reason") {
  InprocNetwork network(2);
  std::barrier<> met(2);
  OnRanks(network, [&](Communicator& communicator) {
    std::vector<std::int32_t> values(100'000);
    Work sent = communicator.SendAsync(values.data(), values.size(), kInt, 1 - communicator.rank(), 0);
    std::int32_t value = 0;
    CHECK(communicator.Barrier());
    met.arrive_and_wait();
    if (communicator.rank() == 1) communicator.Abort("enough");
    const auto got = communicator.Recv(&value, 1, kInt, 1 - communicator.rank(), 1);
    CHECK(Has(ErrorOf(got), "enough"));
    CHECK(Has(TextOf(sent.Wait()), "enough"));
    CHECK(Has(TextOf(communicator.Send(&value, 1, kInt, 0, 0)), "enough"));
  });
}

TEST_CASE("a message that does not fit fails its receive, and the communicator stays good") {
  OnEveryTransport(2, [](Communicator& communicator) {
    for (const std::size_t count : {100, 100'000}) {
      std::vector<std::int32_t> values(count);
      if (communicator.rank() == 0) {
        const Status sent = communicator.Send(values.data(), count, kInt, 1, 1);
        if (count > 8192)
          CHECK(Has(TextOf(sent), "mismatch: the receive on rank 1 (int32 x 10) does not fit the send"));
      } else {
        const auto message = communicator.Recv(values.data(), 10, kInt, 0, 1);
        CAPTURE(ErrorOf(message));
        CHECK(
            Has(ErrorOf(message), "mismatch: the message from rank 0 with tag 1 is longer than its receive: int32 x " +
                                      std::to_string(count) + ", room for int32 x 10"));
      }
      CHECK(communicator.Barrier());
    }
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("Close waits for what was issued and ends what a closed rank will not answer") {
  OnEveryTransport(2, [](Communicator& communicator) {
    std::vector<std::int32_t> values(100'000, 3), got(100'000);
    std::int32_t never = 0;
    const Rank other = 1 - communicator.rank();
    Work sent = communicator.SendAsync(values.data(), values.size(), kInt, other, 1);
    Work received = communicator.RecvAsync(got.data(), got.size(), kInt, other, 1);
    Work unanswered = communicator.RecvAsync(&never, 1, kInt, other, 2);
    Work unwanted = communicator.SendAsync(values.data(), values.size(), kInt, other, 3);
    CHECK(TextOf(communicator.Close()) == "ok");
    CHECK(TextOf(*sent.Test()) == "ok");
    CHECK(TextOf(*received.Test()) == "ok");
    CHECK(got == values);
    const std::string who = "closed: rank " + std::to_string(other) + " closed";
    CHECK(Has(TextOf(*unanswered.Test()), who));
    CHECK(Has(TextOf(*unwanted.Test()), who));
    CHECK(Has(TextOf(communicator.Send(&never, 1, kInt, other, 0)), "closed"));
  });
}

TEST_CASE("a rank that leaves gives up receives that no message has come for, and what it sent arrives") {
  std::barrier<> ended(2);
  std::atomic<bool> has_left = false;
  OnEveryTransport(2, [&](Communicator& communicator) {
    std::int32_t value = 7, never = 0;
    // Opens the lane on both ranks. While rank 0 leaves, rank 1 makes progress but receives nothing. Its progress is
    // needed because some lanes release sent memory only when the peer has read the bytes.
    CHECK((communicator.rank() == 0 ? communicator.Send(&value, 1, kInt, 1, 0).has_value()
                                    : communicator.Recv(&value, 1, kInt, 0, 0).has_value()));
    value = communicator.rank() == 0 ? 8 : 0;
    if (communicator.rank() == 0) {
      CHECK(TextOf(communicator.Send(&value, 1, kInt, 1, 1)) == "ok");
      Work unanswered = communicator.RecvAsync(&never, 1, kInt, 1, 2);
      CHECK(TextOf(communicator.Leave(std::chrono::milliseconds(10))) == "ok");
      CHECK(Has(TextOf(*unanswered.Test()), "closed: rank 0 closed before the receive"));
    }
    if (communicator.rank() == 0) has_left = true;
    while (!has_left) communicator.Progress();
    if (communicator.rank() == 1) {
      CHECK(communicator.Recv(&value, 1, kInt, 0, 1).has_value());
      CHECK(value == 8);
      CHECK(TextOf(communicator.Close()) == "ok");
    }
    ended.arrive_and_wait();
    has_left = false;
    ended.arrive_and_wait();
  });
}

TEST_CASE("several threads send and receive on one communicator") {
  OnEveryTransport(2, [](Communicator& communicator) {
    std::atomic<int> good{0};
    OnThreads(4, [&](int t) {
      const Rank other = 1 - communicator.rank();
      for (int i = 0; i < 50; ++i) {
        std::int32_t mine = 1000 * t + i, theirs = -1;
        if (communicator.SendRecv({&mine, 1, other, t}, {&theirs, 1, other, t}, kInt) && theirs == mine)
          good.fetch_add(1);
      }
    });
    CHECK(good.load() == 200);
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

TEST_CASE("more pending messages than the limit are refused and the others still complete") {
  InprocNetwork network(1);
  OnRanks(
      network,
      [](Communicator& communicator) {
        std::array<std::int32_t, 5> got{};
        std::vector<Work> works;
        for (std::int32_t& value : got) works.push_back(communicator.RecvAsync(&value, 1, kInt, 0, 0));
        CHECK(Has(TextOf(works[4].Wait()), "resource: 4 sends and receives are pending"));
        // Blocking calls count as well. Here a blocking call is refused while four others are pending.
        CHECK(Has(TextOf(communicator.Send(&got[0], 1, kInt, 0, 1)), "max_pending_messages"));
        communicator.Abort("the end");
        for (std::size_t i = 0; i < 4; ++i) CHECK(Has(TextOf(works[i].Wait()), "the end"));
      },
      [](CommunicatorOptions& options) { options.max_pending_messages = 4; });
}

TEST_CASE("a communicator destroyed with messages under way ends them first") {
  InprocNetwork network(2);
  OnRanks(network, [](Communicator& communicator) {
    auto child = communicator.Split(0, communicator.rank());
    REQUIRE(child);
    REQUIRE((*child)->Barrier());  // opens the connections, because a rank can notify another only over a connection
    std::vector<std::int32_t> values(100'000);
    Work receive = (*child)->RecvAsync(values.data(), values.size(), kInt, kAnyRank, 0);
    Work send = (*child)->SendAsync(values.data(), values.size(), kInt, 1 - communicator.rank(), 1);
    CHECK(communicator.Barrier());
    child->reset();
    CHECK(receive.Test());
    CHECK(send.Test());
    CAPTURE(TextOf(*receive.Test()));
    CHECK(Has(TextOf(*receive.Test()), "without closing it"));
    CHECK(TextOf(communicator.Close()) == "ok");
  });
}

}  // namespace messages_test
}  // namespace rondo
