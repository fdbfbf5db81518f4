// Tests one failed allocation of a control thread during the handshake with a client that belongs to no endpoint yet.
// No endpoint can report the failure, so the client must still connect. In an earlier version, the failure ended all
// reading from the client until the client's handshake timed out.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/transport_tcp/raw_client.h"
#include "tests/transport_tcp/scarce_memory.h"
#include "tests/transport_tcp/world.h"

namespace rondo::test {
namespace {

// The control thread logs a dropped foreign client, so this logger can identify that thread.
class MarksControlThread final : public Logger {
 public:
  void Write(LogLevel, std::string_view text) override {
    if (text.find("dropped a connection") != std::string_view::npos) CountThisThread();
  }
};

class Listener final : public PeerObserver {
 public:
  void OnControl(Rank, ControlMessage) override {}
  void OnPeerLost(Rank, Error) override {}
  void OnTransportFailed(const Error& error) override {
    CHECK(error.code() == ErrorCode::kOutOfMemory);
    has_received.store(true);
  }
  std::atomic<bool> has_received{false};
};

// Runs a job of two ranks in which the k-th allocation of rank 0's control thread fails, counted from rank 1's first
// attempt to connect. Rank 0 opens its endpoint only when a client already waits for it. Returns whether an allocation
// failed.
bool Try(int k) {
  MarksControlThread logger;
  TcpOptions options = LocalOptions();
  options.handshake_timeout = std::chrono::hours(1);
  options.counters = std::make_shared<TcpCounters>();
  const auto client = MakeTransport(options);
  options.logger = &logger;
  const auto server = MakeTransport(options);
  {
    const Fd foreign_client = Call(*server);
    Say(foreign_client, std::vector<std::byte>(64, std::byte{'x'}));
    Listen(foreign_client);
  }
  const std::vector<std::string> addresses = {server->Address(), client->Address()};
  FailAllocation(k);

  Listener observers[2];
  const auto higher = OpenEndpoint(*client, 1, addresses, observers[1]);
  Lane* const to_server = *higher->Open(0, 0);
  const auto poll_until = [](Endpoint& one, Endpoint* other, const auto& done) {
    const SteadyClock clock;
    for (const TimePoint deadline = clock.Now() + kPatience; clock.Now() < deadline; poll(nullptr, 0, 1)) {
      one.Poll(clock.Now());
      if (other != nullptr) other->Poll(clock.Now());
      if (done()) return true;
    }
    return false;
  };
  CHECK(poll_until(*higher, nullptr, [&] { return options.counters->held > 0; }));
  const auto lower = OpenEndpoint(*server, 0, addresses, observers[0]);
  Lane* const to_client = *lower->Open(1, 0);
  CHECK(poll_until(*higher, lower.get(), [&] {
    return observers[0].has_received ||
           (to_server->state() == LaneState::kOpen && to_client->state() == LaneState::kOpen);
  }));
  CHECK(!observers[1].has_received);
  const bool failed = AllocationFailed();
  FailAllocation(0);
  return failed;
}

TEST_CASE("a client gets through if memory ran out during its handshake, or the endpoint reports it") {
  int failed = 0;
  while (Try(failed + 1)) ++failed;
  CHECK(failed > 10);
}

}  // namespace
}  // namespace rondo::test
