// N ranks with an endpoint each, driven by one thread: what most of the suite's stories are told with.
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

// Remembers what an endpoint was told. Thread rule: any thread (transports may tell from threads of their own).
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

  // Called after each of the above, from the same thread. Set before the endpoint is opened.
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

  // Opens the endpoint of a rank. World::Everybody has done so for communicator 1, rail 0.
  Endpoint& Join(Rank rank, std::uint64_t communicator = 1, std::uint32_t rail = 0);
  static World Everybody(const Fixture& fixture, int size);
  World(World&&) = default;

  // The endpoint that joined first.
  Endpoint& endpoint(Rank rank);
  Recorder& recorder(Rank rank);
  Endpoint& endpoint(Rank rank, std::uint64_t communicator, std::uint32_t rail);
  Recorder& recorder(Rank rank, std::uint64_t communicator, std::uint32_t rail);
  Lane& lane(Rank rank, Rank peer, std::uint32_t index = 0);
  int size() const { return size_; }
  const Capabilities& capabilities() const { return network_->transport(0)->capabilities(); }

  // One round: every endpoint is polled once, then the network may advance.
  void Poll();
  // Polls until the condition holds; fails the test when the fixture's patience ends before.
  void Until(const std::string& what, const std::function<bool()>& condition);
  // Polls for long enough that whatever was going to happen has most probably happened: for "nothing happens" checks.
  void Settle();
  // Waits as an owner does: arms, and sleeps until there is news. Fails the test when the patience ends before.
  void Sleep(Rank rank);
  // Opens the lane on both sides and waits until it is open.
  void Connect(Rank a, Rank b, std::uint32_t index = 0);

  // The process of a rank dies / its endpoints are destroyed.
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

// Sleeps on one endpoint without a World, for threads. False when the patience ended first.
bool SleepOn(Endpoint& endpoint, std::chrono::seconds patience);

// Writes one piece; returns what was accepted.
std::size_t Put(Lane& lane, Bytes bytes);
std::size_t Put(Lane& lane, std::string_view text);
// Reads at most `bytes`.
std::string Take(Lane& lane, std::size_t bytes);

}  // namespace rondo::conformance
