// N ranks with an endpoint each, polled by one thread: the fixture of most tests of the suite.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/conformance.h"
#include "transport/transport.h"

namespace rondo::conformance {

// Records the events of an endpoint. Thread rule: any thread (transports may report events from their own threads).
class Recorder final : public PeerObserver {
 public:
  struct Control {
    Rank from;
    ControlMessage message;
  };
  struct Loss {
    Rank peer;
    Error error;
  };

  void OnControl(Rank from, ControlMessage message) override;
  void OnPeerLost(Rank peer, Error error) override;

  std::vector<Control> controls() const;
  std::vector<Loss> losses() const;
  bool Lost(Rank peer) const;

  // Called after each recorded control message, from the same thread. Must be set before the endpoint is opened.
  std::function<void(Rank from, const ControlMessage&)> on_control;

 private:
  mutable std::mutex mutex_;
  std::vector<Control> controls_;
  std::vector<Loss> losses_;
};

class World {
 public:
  World(const Fixture& fixture, int size);
  ~World();

  // Opens the endpoint of a rank. World::Everybody has already done so for communicator 1, rail 0.
  Endpoint& Join(Rank rank, std::uint64_t communicator = 1, std::uint32_t rail = 0);
  static World Everybody(const Fixture& fixture, int size);
  World(World&&) = default;

  // The first endpoint that this rank has opened.
  Endpoint& endpoint(Rank rank);
  Recorder& recorder(Rank rank);
  Endpoint& endpoint(Rank rank, std::uint64_t communicator, std::uint32_t rail);
  Recorder& recorder(Rank rank, std::uint64_t communicator, std::uint32_t rail);
  Lane& lane(Rank rank, Rank peer, std::uint32_t index = 0);
  int size() const { return size_; }
  const Capabilities& capabilities() const { return network_->transport(0)->capabilities(); }

  // One round: every endpoint is polled once, then the network may advance.
  void Poll();
  // Polls until the condition holds; fails the test after the fixture's patience.
  void Until(const std::string& what, const std::function<bool()>& condition);
  // Polls long enough that pending events have very probably happened. Used before checks that nothing has happened.
  void Settle();
  // Waits as an endpoint's owner does: calls Arm, and sleeps until an event arrives. Fails the test after
  // Fixture::patience.
  void Sleep(Rank rank);
  // Opens the lane on both sides and waits until it is open.
  void Connect(Rank a, Rank b, std::uint32_t index = 0);

  // Kill ends the process of a rank; Leave destroys its endpoints.
  void Kill(Rank rank);
  void Leave(Rank rank);

  TestNetwork& network() { return *network_; }

 private:
  struct Member {
    Rank rank;
    std::uint64_t communicator;
    std::uint32_t rail;
    std::unique_ptr<Recorder> recorder;
    std::unique_ptr<Endpoint> endpoint;
  };
  Member& member(Rank rank);
  Member& member(Rank rank, std::uint64_t communicator, std::uint32_t rail);

  Fixture fixture_;
  int size_;
  std::unique_ptr<TestNetwork> network_;
  std::vector<std::unique_ptr<Member>> members_;
};

// Sleeps on one endpoint without a World, for tests with threads. False: no event arrived within `patience`.
bool SleepOn(Endpoint& endpoint, std::chrono::seconds patience);

// Writes one piece; returns the number of accepted bytes.
std::size_t Put(Lane& lane, Bytes bytes);
std::size_t Put(Lane& lane, std::string_view text);
// Reads at most `bytes`.
std::string Take(Lane& lane, std::size_t bytes);

}  // namespace rondo::conformance
