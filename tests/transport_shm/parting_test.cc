// Tests how ranks that share memory close. No rank may leave before all ranks have received each other's goodbye, at
// whatever moment the goodbyes arrive.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/communicator.h"
#include "tests/support/passing_transport.h"
#include "tests/support/shm_ranks.h"

namespace rondo::test {
namespace parting_test {

// An observer that passes events on from an endpoint to the real observer.
class Between : public PeerObserver {
 public:
  Result<std::unique_ptr<Endpoint>> Open(Transport& transport, EndpointConfig config) {
    observer_ = std::exchange(config.observer, this);
    return transport.OpenEndpoint(config);
  }

  void OnControl(Rank from, ControlMessage message) override { observer_->OnControl(from, std::move(message)); }
  void OnPeerLost(Rank peer, Error error) override { observer_->OnPeerLost(peer, std::move(error)); }
  void OnTransportFailed(const Error& error) override { observer_->OnTransportFailed(error); }

 private:
  PeerObserver* observer_ = nullptr;
};

// Delays the first goodbye that a closing rank receives, until the rank has called ControlPeers `looks` times.
class LateGoodbye final : public Between {
 public:
  explicit LateGoodbye(int looks) : looks_(looks) {}

  void WaitUntilHeld() const { is_held_.wait(false); }
  void StartCounting() { counts_ = true; }
  void OnLook() {
    if (!counts_ || --looks_ != 0) return;
    Between::OnControl(from_, std::move(goodbye_));
  }

  void OnControl(Rank from, ControlMessage message) override {
    if (message.kind != ControlKind::kGoodbye || is_held_) return Between::OnControl(from, std::move(message));
    from_ = from;
    goodbye_ = std::move(message);
    is_held_ = true;
    is_held_.notify_all();
  }

 private:
  std::atomic<int> looks_;
  std::atomic<bool> counts_{false};
  std::atomic<bool> is_held_{false};
  Rank from_ = kNoRank;
  ControlMessage goodbye_;
};

class EndpointWithLateGoodbye final : public PassingEndpoint {
 public:
  EndpointWithLateGoodbye(std::unique_ptr<Endpoint> inner, LateGoodbye& late)
      : PassingEndpoint(std::move(inner)), late_(late) {}
  std::vector<Rank> ControlPeers() const override {
    late_.OnLook();
    return PassingEndpoint::ControlPeers();
  }

 private:
  LateGoodbye& late_;
};

class TransportWithLateGoodbye final : public PassingTransport {
 public:
  TransportWithLateGoodbye(std::shared_ptr<Transport> inner, LateGoodbye& late)
      : PassingTransport(std::move(inner)), late_(late) {}
  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    RONDO_ASSIGN(auto endpoint, late_.Open(inner(), config));
    return std::make_unique<EndpointWithLateGoodbye>(std::move(endpoint), late_);
  }

 private:
  LateGoodbye& late_;
};

// A benchmark found this error in one of about a thousand runs. Rank 0, which sends its goodbye last, received the
// goodbye of rank 1 between two checks for it. The first check kept rank 0 from sending its own goodbye, and the
// second let it leave without one.
TEST_CASE("rank 0 says its goodbye in whatever moment of its closing the other's arrives") {
  for (int looks = 1; looks <= 6; ++looks) {
    CAPTURE(looks);
    LateGoodbye late(looks);
    const auto adjust = [&](CommunicatorOptions& options) {
      if (options.rank == 0) options.transport = std::make_shared<TransportWithLateGoodbye>(options.transport, late);
    };
    OnShmRanks({.ranks = 2, .adjust = adjust}, [&](Communicator& c) {
      CHECK(c.Barrier());
      if (c.rank() == 0) {
        late.WaitUntilHeld();
        late.StartCounting();
      }
      const Status closed = c.Close();
      INFO((closed ? std::string() : closed.error().ToString()));
      CHECK(closed);
    });
  }
}

// Rank 0 sends its goodbye only after all others have sent theirs. So in an earlier version, if rank 0 closed too
// early, the other ranks waited for it until their timeouts.
TEST_CASE("rank 0 that closes too early is named by those who still need it, as others are") {
  for (const Rank early : {0, 1}) {
    CAPTURE(early);
    OnShmRanks({.ranks = 3}, [&](Communicator& c) {
      CHECK(c.Barrier());
      const Status status = c.rank() == early ? c.Close() : c.Barrier();
      REQUIRE(!status);
      INFO(status.error().ToString());
      CHECK(status.error().code() == ErrorCode::kClosed);
      CHECK(status.error().culprit() == early);
      CHECK(status.error().message().find(" closed after #1 barrier by intranode, but rank ") != std::string::npos);
    });
  }
}

TEST_CASE("a rank that refuses its call and closes gives its reason to the others, rank 0 as well") {
  for (const Rank early : {0, 1}) {
    CAPTURE(early);
    OnShmRanks({.ranks = 3}, [&](Communicator& c) {
      CHECK(c.Barrier());
      if (c.rank() == early) CHECK(!c.Barrier({.timeout = Duration::zero()}));
      const Status status = c.rank() == early ? c.Close() : c.Barrier();
      REQUIRE(!status);
      INFO(status.error().ToString());
      CHECK(status.error().code() == ErrorCode::kMismatch);
      if (c.rank() != early) CHECK(status.error().culprit() == early);
      CHECK(status.error().message().find(" refused a call of its program (barrier: the timeout must be positive)") !=
            std::string::npos);
    });
  }
}

// Records the control messages that a rank receives, even while it is opening its endpoint.
class ControlLog final : public Between {
 public:
  // False: no such message arrived within ten seconds.
  bool Wait(Rank from, ControlKind kind) {
    std::unique_lock lock(mutex_);
    return more_.wait_for(lock, std::chrono::seconds(10), [&] { return received_.contains({from, kind}); });
  }

  void OnControl(Rank from, ControlMessage message) override {
    const ControlKind kind = message.kind;
    Between::OnControl(from, std::move(message));
    const std::lock_guard lock(mutex_);
    received_.insert({from, kind});
    more_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::set<std::pair<Rank, ControlKind>> received_;
};

// A transport that returns the endpoint only after it has received rank 1's abort and a heartbeat of rank 2.
class TransportSlowToOpen final : public PassingTransport {
 public:
  TransportSlowToOpen(std::shared_ptr<Transport> inner, ControlLog& log)
      : PassingTransport(std::move(inner)), log_(log) {}
  Result<std::unique_ptr<Endpoint>> OpenEndpoint(const EndpointConfig& config) override {
    RONDO_ASSIGN(auto endpoint, log_.Open(inner(), config));
    CHECK(log_.Wait(1, ControlKind::kAbort));
    CHECK(log_.Wait(2, ControlKind::kHeartbeat));
    return endpoint;
  }

 private:
  ControlLog& log_;
};

// Found on a slow machine: ranks whose messages arrived before rank 0 had its endpoint got no answer. On the intranode
// path ranks do not ask a second time.
TEST_CASE("rank 0 that learns of a failure while it still opens its endpoint passes it on") {
  ControlLog log;
  const auto adjust = [&](CommunicatorOptions& options) {
    if (options.rank == 0) options.transport = std::make_shared<TransportSlowToOpen>(options.transport, log);
  };
  OnShmRanks({.ranks = 3, .adjust = adjust}, [&](Communicator& c) {
    Work work = c.BarrierAsync();
    if (c.rank() == 1) {
      CHECK(log.Wait(1, ControlKind::kHeartbeat));
      c.Abort("as the test wants it");
    }
    const Status status = work.Wait();
    REQUIRE(!status);
    INFO(status.error().ToString());
    CHECK(status.error().message() == "rank 1 aborted: as the test wants it");
  });
}

TEST_CASE(
    "a rank that closes while another of its threads makes progress still learns which rank was in an operation") {
  for (int round = 0; round < 20; ++round) {
    OnShmRanks({.ranks = 2}, [](Communicator& communicator) {
      CHECK(communicator.Barrier());
      Status status;
      if (communicator.rank() == 0) {
        std::jthread progress_thread([&](const std::stop_token& stop) {
          while (!stop.stop_requested()) communicator.Progress();
        });
        status = communicator.Close();
      } else {
        status = communicator.Barrier();
      }
      CHECK((!status && status.error().code() == ErrorCode::kClosed));
      CHECK((!status && status.error().ToString().find("rank 0 closed after #1 barrier") != std::string::npos));
    });
  }
}

}  // namespace parting_test
}  // namespace rondo::test
