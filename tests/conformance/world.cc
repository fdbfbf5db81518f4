#include "tests/conformance/world.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <thread>

namespace rondo::conformance {

void TestNetwork::Advance() { std::this_thread::yield(); }

void Recorder::OnControl(Rank from, ControlMessage message) {
  {
    std::lock_guard lock(mutex_);
    controls_.push_back({from, message});
  }
  if (on_control) on_control(from, message);
}

void Recorder::OnPeerLost(Rank peer, Error error) {
  std::lock_guard lock(mutex_);
  losses_.push_back({peer, std::move(error)});
}

std::vector<Recorder::Control> Recorder::controls() const {
  std::lock_guard lock(mutex_);
  return controls_;
}

std::vector<Recorder::Loss> Recorder::losses() const {
  std::lock_guard lock(mutex_);
  return losses_;
}

bool Recorder::Lost(Rank peer) const {
  std::lock_guard lock(mutex_);
  return std::any_of(losses_.begin(), losses_.end(), [&](const Loss& loss) { return loss.peer == peer; });
}

World::World(const Fixture& fixture, int size) : fixture_(fixture), size_(size), network_(fixture.make(size)) {}

World::~World() = default;

World World::Everybody(const Fixture& fixture, int size) {
  World world(fixture, size);
  for (Rank rank = 0; rank < size; ++rank) world.Join(rank);
  return world;
}

Endpoint& World::Join(Rank rank, std::uint64_t communicator, std::uint32_t rail) {
  auto& joined = *members_.emplace_back(
      std::make_unique<Member>(Member{rank, communicator, rail, std::make_unique<Recorder>(), nullptr}));
  EndpointConfig config;
  config.communicator = communicator;
  config.rail = rail;
  config.rank = rank;
  for (Rank r = 0; r < size_; ++r) config.addresses.push_back(network_->transport(r)->Address());
  config.observer = joined.recorder.get();
  auto endpoint = network_->transport(rank)->OpenEndpoint(config);
  REQUIRE_MESSAGE(endpoint.has_value(), endpoint.error().ToString());
  joined.endpoint = std::move(*endpoint);
  return *joined.endpoint;
}

World::Member& World::member(Rank rank) {
  for (auto& m : members_)
    if (m->rank == rank) return *m;
  FAIL("rank ", rank, " has not joined");
  std::abort();
}

World::Member& World::member(Rank rank, std::uint64_t communicator, std::uint32_t rail) {
  for (auto& m : members_)
    if (m->rank == rank && m->communicator == communicator && m->rail == rail) return *m;
  FAIL("rank ", rank, " has not joined communicator ", communicator, " rail ", rail);
  std::abort();
}

Endpoint& World::endpoint(Rank rank) { return *member(rank).endpoint; }
Recorder& World::recorder(Rank rank) { return *member(rank).recorder; }
Endpoint& World::endpoint(Rank rank, std::uint64_t communicator, std::uint32_t rail) {
  return *member(rank, communicator, rail).endpoint;
}
Recorder& World::recorder(Rank rank, std::uint64_t communicator, std::uint32_t rail) {
  return *member(rank, communicator, rail).recorder;
}

Lane& World::lane(Rank rank, Rank peer, std::uint32_t index) {
  auto opened = endpoint(rank).Open(peer, index);
  REQUIRE_MESSAGE(opened.has_value(), opened.error().ToString());
  return **opened;
}

void World::Poll() {
  for (auto& m : members_)
    if (m->endpoint) m->endpoint->Poll(network_->Now());
  network_->Advance();
}

void World::Until(const std::string& what, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + fixture_.patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) FAIL("waited without success until ", what);
    Poll();
  }
}

void World::Settle() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  for (int round = 0; round < 100; ++round) Poll();
  if (!fixture_.threads) return;  // on virtual time, pending events happen within these rounds
  while (std::chrono::steady_clock::now() < until) Poll();
}

void World::Sleep(Rank rank) {
  Endpoint& sleeper = endpoint(rank);
  if (fixture_.threads) {
    // No other endpoint is polled meanwhile: the event that wakes the sleeper has happened already, or happens in the
    // kernel.
    REQUIRE_MESSAGE(SleepOn(sleeper, fixture_.patience), "rank ", rank, " was not woken");
    return;
  }
  for (int step = 0; step < 100'000; ++step) {
    const bool news = sleeper.Arm();
    sleeper.Disarm();
    if (news) return;
    network_->Advance();
  }
  FAIL("rank ", rank, " was not woken");
}

void World::Connect(Rank a, Rank b, std::uint32_t index) {
  Lane* ab = &lane(a, b, index);
  Lane* ba = &lane(b, a, index);
  Until("both ends are open", [&] { return ab->state() == LaneState::kOpen && ba->state() == LaneState::kOpen; });
}

void World::Kill(Rank rank) {
  if (!network_->Kill(rank)) Leave(rank);
}

void World::Leave(Rank rank) {
  for (auto& m : members_)
    if (m->rank == rank) m->endpoint.reset();
}

bool SleepOn(Endpoint& endpoint, std::chrono::seconds patience) {
  bool woken = endpoint.Arm();
  if (!woken) {
    pollfd waiting{endpoint.wait_fd(), POLLIN, 0};
    woken = poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) == 1;
  }
  endpoint.Disarm();
  return woken;
}

std::size_t Put(Lane& lane, Bytes bytes) { return lane.Write(std::span(&bytes, 1)); }
std::size_t Put(Lane& lane, std::string_view text) { return Put(lane, AsBytes(text)); }

std::string Take(Lane& lane, std::size_t bytes) {
  std::string text(bytes, '?');
  text.resize(lane.ReadInto(std::as_writable_bytes(std::span(text.data(), text.size()))));
  return text;
}

}  // namespace rondo::conformance
