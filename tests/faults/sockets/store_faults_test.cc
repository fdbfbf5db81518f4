// Tests a rendezvous through a store behind a proxy. The store is late, refuses connections, is slow, is cut off or is
// silent, and the tests check the ranks' errors. They also check that a job does not need the store after the
// rendezvous.
#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/net/resolve.h"
#include "collectives/connect.h"
#include "rendezvous/tcp_store_client.h"
#include "rendezvous/tcp_store_server.h"
#include "tests/faults/sockets/proxied_ranks.h"
#include "tests/support/fault_row.h"
#include "tests/support/threads.h"

namespace rondo::fault {
namespace store_faults_test {

using namespace std::chrono_literals;

// A store, and for each rank a listener in front of it, called "store of rank 1" and so on.
struct Scene {
  explicit Scene(int world_size) : ranks(world_size) {
    TcpStoreServer::Options options;
    options.host = "127.0.0.1";
    options.deadline = SteadyClock().Now() + 20s;
    auto started = TcpStoreServer::Start(options);
    REQUIRE_MESSAGE(started, started.error().ToString());
    server = std::move(*started);
    auto running = Proxy::Start({});
    REQUIRE_MESSAGE(running, running.error().ToString());
    proxy = *running;
    for (Rank r = 0; r < ranks; ++r) {
      const auto port = proxy->Listen({.name = NameFor(r), .to = server->address()});
      REQUIRE_MESSAGE(port, port.error().ToString());
      urls.push_back("tcp://127.0.0.1:" + std::to_string(*port));
    }
  }
  static std::string NameFor(Rank rank) { return "store of rank " + std::to_string(rank); }
  std::string AddressFor(Rank rank) const { return urls[static_cast<std::size_t>(rank)].substr(6); }
  ToxicHandle Add(Scope scope, Toxic toxic) {
    auto handle = proxy->Add(std::move(scope), toxic);
    REQUIRE_MESSAGE(handle, handle.error().ToString());
    return *handle;
  }
  Result<std::unique_ptr<Communicator>> ConnectRank(Rank rank, Duration timeout, Logger* logger = nullptr) const {
    ConnectOptions options;
    options.rendezvous = urls[static_cast<std::size_t>(rank)];
    options.rank = rank;
    options.world_size = ranks;
    options.external_store = true;
    options.addresses = {"127.0.0.1"};
    options.path = Path::kTcp;
    options.timeout = timeout;
    options.logger = logger;
    return Connect(options);
  }
  // Runs a thread for each rank, which connects and then runs `body`.
  std::vector<Status> Run(Duration timeout, const std::function<Status(Communicator&)>& body,
                          Logger* logger = nullptr) {
    std::vector<Status> statuses(static_cast<std::size_t>(ranks));
    OnThreads(ranks, [&](Rank r) {
      const auto communicator = ConnectRank(r, timeout, logger);
      Status& status = statuses[static_cast<std::size_t>(r)];
      status = communicator ? body(**communicator) : Status(tl::unexpected(communicator.error()));
    });
    return statuses;
  }

  // Connects with a deadline of 300 ms, and then with longer ones until the toxic has fired. On a slow machine a rank
  // may not reach the toxic within a short deadline.
  Result<std::unique_ptr<Communicator>> ConnectUntilFired(Rank rank, const ToxicHandle& toxic) const {
    for (Duration timeout = 300ms;; timeout *= 4) {
      auto met = ConnectRank(rank, timeout);
      if (toxic->fired.count() > 0 || timeout > 5s) return met;
    }
  }

  const int ranks;
  std::unique_ptr<TcpStoreServer> server;
  std::shared_ptr<Proxy> proxy;
  std::vector<std::string> urls;
};

Status SumAndClose(Communicator& c) { return ThenClose(c, SumByRing(c, 1000)); }

bool Has(const Status& status, std::string_view part) {
  return !status && status.error().message().find(part) != std::string::npos;
}

void CheckAllWell(const std::vector<Status>& statuses) {
  CAPTURE(TextOf(statuses));
  for (const Status& status : statuses) CHECK(status.has_value());
}

// Calls `react` when the log says that no store answers yet.
class WhenNotThere final : public Logger {
 public:
  explicit WhenNotThere(std::function<void()> react) : react_(std::move(react)) {}
  void Write(LogLevel, std::string_view text) override {
    if (text.find("there is no store at") == std::string_view::npos) return;
    const std::lock_guard lock(mutex_);
    react_();
  }

 private:
  std::mutex mutex_;
  const std::function<void()> react_;
};

TEST_CASE("a store that refuses at first is called again until it is there") {
  Scene scene(2);
  for (const Rank r : {0, 1}) REQUIRE(scene.proxy->Refuse(Scene::NameFor(r)));
  int refusals = 0;
  WhenNotThere logger([&] {
    ++refusals;
    CHECK(scene.proxy->AcceptAgain(""));
  });
  const auto statuses = scene.Run(20s, SumAndClose, &logger);
  CheckAllWell(statuses);
  CHECK(scene.proxy->counters().refused.count() == 2);
  StateFault(24, scene.proxy->counters().refused.count(), statuses);
  CHECK(refusals > 0);
}

TEST_CASE("a store that goes on refusing is unreachable at the deadline, with its address and the reason") {
  Scene scene(2);
  REQUIRE(scene.proxy->Refuse(Scene::NameFor(1)));
  const auto alone = scene.ConnectRank(1, 300ms);
  CHECK(scene.proxy->counters().refused.count() == 1);
  REQUIRE_FALSE(alone.has_value());
  StateFault(20, scene.proxy->counters().refused.count(), alone.error());
  CAPTURE(alone.error().ToString());
  CHECK(alone.error().code() == ErrorCode::kUnreachable);
  CHECK(alone.error().message().find(scene.AddressFor(1) + ": Connection refused") != std::string::npos);
}

TEST_CASE("a store that accepts and says nothing is unreachable at the deadline, and that is what it says") {
  Scene scene(2);
  const auto hole = scene.Add({.listener = Scene::NameFor(1)}, Timeout{});
  const auto alone = scene.ConnectUntilFired(1, hole);
  CHECK(hole->fired.count() > 0);
  REQUIRE_FALSE(alone.has_value());
  StateFault(21, hole->fired.count(), alone.error());
  CAPTURE(alone.error().ToString());
  CHECK(alone.error().code() == ErrorCode::kUnreachable);
  CHECK(alone.error().message().find(
            scene.AddressFor(1) +
            ": the store accepted the connection, but did not answer this process's hello in time") !=
        std::string::npos);
}

TEST_CASE("a store lost during the rendezvous is reported at once, with its address") {
  Scene scene(2);
  Result<std::unique_ptr<Communicator>> waiting = Fail(ErrorCode::kInternal, "did not run");
  const auto before = std::chrono::steady_clock::now();
  std::thread rank([&] { waiting = scene.ConnectRank(0, 20s); });
  // When the rank's entry is in the store, the rank waits for the other ranks.
  TcpStoreClient::Options direct;
  direct.address = *ParseHostPort(scene.server->address());
  direct.deadline = SteadyClock().Now() + 20s;
  const auto observer = TcpStoreClient::Connect(direct);
  REQUIRE(observer);
  REQUIRE((*observer)->WaitFor("rondo/default/0/member/0", direct.deadline));
  const auto cut = scene.Add({.listener = Scene::NameFor(0)}, ResetPeer{});
  rank.join();
  CHECK(std::chrono::steady_clock::now() - before < 10s);
  CHECK(cut->fired.count() > 0);
  REQUIRE_FALSE(waiting.has_value());
  StateFault(20, cut->fired.count(), waiting.error(), {.took = std::chrono::steady_clock::now() - before});
  CAPTURE(waiting.error().ToString());
  CHECK(waiting.error().code() == ErrorCode::kStoreLost);
  CHECK(waiting.error().message().find(scene.AddressFor(0)) != std::string::npos);
}

TEST_CASE("a slow store makes the rendezvous slow, nothing else") {
  Scene scene(3);
  const auto late = scene.Add({}, Latency{.delay = 15ms, .jitter = 10ms});
  const auto narrow = scene.Add({}, Bandwidth{.bytes_per_second = 50'000});
  const auto statuses = scene.Run(20s, SumAndClose);
  CheckAllWell(statuses);
  StateFault(21, late->fired.count(), statuses);
  CHECK(late->fired.count() > 10);
  CHECK(narrow->fired.count() > 10);
}

TEST_CASE("a store in slices of one byte, and one that falls silent for a while, suffice for a rendezvous") {
  Scene scene(2);
  const auto slicer = scene.Add({}, Slicer{.slice_bytes = 1});
  const auto hole = scene.Add({.listener = Scene::NameFor(1), .way = Way::kToClient, .from_byte = 30}, Timeout{});
  std::thread healer([&] {
    CHECK(hole->fired.Await(1, kFiring));
    scene.proxy->Remove(hole);
  });
  const auto statuses = scene.Run(20s, SumAndClose);
  CheckAllWell(statuses);
  healer.join();
  StateFault(12, slicer->fired.count(), statuses);
  StateFault(21, hole->fired.count(), statuses);
  CHECK(slicer->fired.count() > 200);
}

TEST_CASE("a store that answers all but one rank: that one names store and key, the others name that rank") {
  Scene scene(3);
  // No byte reaches rank 1 after the reply to its hello (14 bytes).
  const auto hole = scene.Add({.listener = Scene::NameFor(1), .way = Way::kToClient, .from_byte = 14}, Timeout{});
  const auto statuses = scene.Run(3s, SumAndClose);
  CHECK(hole->fired.count() == 1);
  StateFault(21, hole->fired.count(), statuses);
  CAPTURE(TextOf(statuses));
  CHECK(CodeOf(statuses[1]) == ErrorCode::kStoreTimeout);
  CHECK(Has(statuses[1], scene.AddressFor(1)));
  CHECK(Has(statuses[1], "did not answer CompareSet of key 'rondo/default/0/founding' in time"));
  for (const std::size_t other : {0, 2}) {
    CHECK(CodeOf(statuses[other]) == ErrorCode::kRendezvousTimeout);
    REQUIRE_FALSE(statuses[other].has_value());
    CHECK(statuses[other].error().culprit() == 1);
    CHECK(Has(statuses[other], "absent: 1"));
  }
}

TEST_CASE("a bit turned over in what the store says is never taken for an answer of another length") {
  Scene scene(1);
  // Bytes of the length, id and kind of the store's first answer (docs/WIRE.md, "Store protocol"). The answer follows
  // the 14 bytes of the reply to the hello.
  for (const std::uint64_t byte : {14, 16, 17, 18, 25, 26}) {
    CAPTURE(byte);
    const auto flip = scene.Add({.way = Way::kToClient, .from_byte = byte}, Corrupt{.bit = 7});
    const auto before = std::chrono::steady_clock::now();
    const auto alone = scene.ConnectUntilFired(0, flip);
    CHECK(std::chrono::steady_clock::now() - before < 20s);
    CHECK(flip->fired.count() == 1);
    scene.proxy->Remove(flip);
    REQUIRE_FALSE(alone.has_value());
    StateFault(10, flip->fired.count(), alone.error(), {.took = std::chrono::steady_clock::now() - before});
    CAPTURE(alone.error().ToString());
    const ErrorCode code = alone.error().code();
    CHECK((code == ErrorCode::kStoreLost || code == ErrorCode::kStoreTimeout || code == ErrorCode::kProtocol));
    CHECK(alone.error().ToString().find("127.0.0.1:") != std::string::npos);
  }
}

TEST_CASE("after the rendezvous the store may die: operations go on") {
  Scene scene(2);
  std::mutex once;
  std::vector<ToxicHandle> cuts;
  const auto statuses = scene.Run(20s, [&](Communicator& c) -> Status {
    if (Status met = c.Barrier(); !met) return met;
    {
      const std::lock_guard lock(once);
      scene.server.reset();
      cuts.push_back(scene.Add({}, ResetPeer{}));
      CHECK(scene.proxy->Refuse(""));
    }
    return SumAndClose(c);
  });
  CheckAllWell(statuses);
  CHECK(scene.proxy->counters().refused.count() > 0);
  StateFault(20, scene.proxy->counters().refused.count(), statuses);
}

}  // namespace store_faults_test
}  // namespace rondo::fault
