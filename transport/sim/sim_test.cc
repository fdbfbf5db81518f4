// What is particular to the simulated network: virtual time, seeds, faults that are counted. What every transport
// promises is tested in tests/conformance.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "transport/sim/sim.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/pattern.h"

namespace rondo {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

struct Recorder final : PeerObserver {
  std::string told;
  void OnControl(Rank from, ControlMessage message) override {
    told += std::to_string(from) + ":" + message.body + " ";
  }
  void OnPeerLost(Rank peer, Error) override { told += "lost " + std::to_string(peer) + " "; }
};

// A world in which every rank has a lane to every other.
struct World {
  explicit World(const SimOptions& options) : network(options), observers(options.world_size) {
    for (Rank rank = 0; rank < options.world_size; ++rank) {
      EndpointConfig config;
      config.rank = rank;
      for (Rank r = 0; r < options.world_size; ++r) config.addresses.push_back(network.transport(r)->Address());
      config.observer = &observers[rank];
      endpoints.push_back(*network.transport(rank)->OpenEndpoint(config));
    }
    for (Rank rank = 0; rank < options.world_size; ++rank)
      for (Rank peer = 0; peer < options.world_size; ++peer)
        if (peer != rank) lane(rank, peer);
  }
  Lane& lane(Rank rank, Rank peer) { return **endpoints[rank]->Open(peer, 0); }
  bool Step() {
    if (!network.Step()) return false;
    for (Rank rank : network.RanksToPoll()) endpoints[rank]->Poll(network.clock()->Now());
    return true;
  }
  void Run() {
    while (Step()) {
    }
  }

  SimNetwork network;
  std::vector<Recorder> observers;
  std::vector<std::unique_ptr<Endpoint>> endpoints;
};

std::size_t Put(Lane& lane, Bytes bytes) { return lane.Write(std::span(&bytes, 1)); }

// Everybody sends `total` pattern bytes to everybody else and reads what it gets, until nothing happens any more.
// Returns how much arrived unchanged, all lanes together.
std::uint64_t Flood(World& world, std::uint64_t total) {
  const int size = world.network.world_size();
  std::vector<std::byte> source(total);
  FillPattern(1, 0, source);
  std::vector<std::byte> destination(total);
  std::uint64_t arrived = 0;
  do {
    for (Rank rank = 0; rank < size; ++rank)
      for (Rank peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        Lane& lane = world.lane(rank, peer);
        Put(lane, Bytes(source).subspan(lane.accepted()));
        const std::uint64_t at = lane.consumed();
        const std::size_t got = lane.ReadInto(destination);
        REQUIRE_FALSE(PatternMismatch(1, at, Bytes(destination).first(got)));
        arrived += got;
      }
  } while (world.Step());
  return arrived;
}

SimOptions Rough(std::uint64_t seed) {
  return {.world_size = 4,
          .seed = seed,
          .link = {.bytes_per_second = 1'000'000'000, .max_slice_bytes = 300, .clog_probability = 0.05},
          .buffer_bytes = 1024,
          .late_release = seed % 2 == 0,
          .clock = nullptr};
}

TEST_CASE("one seed gives one trace, and another seed another") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    World first(Rough(seed));
    World second(Rough(seed));
    World other(Rough(seed + 1000));
    for (World* world : {&first, &second, &other}) {
      world->network.Kill(3, world->network.clock()->Now() + milliseconds(2));
      Flood(*world, 5000);
    }
    CHECK(first.network.trace_hash() == second.network.trace_hash());
    CHECK(first.network.counters() == second.network.counters());
    CHECK(first.network.clock()->Now() == second.network.clock()->Now());
    CHECK(first.network.trace_hash() != other.network.trace_hash());
  }
}

TEST_CASE("all bytes arrive over slices, clogs and full buffers, and the counters prove that these happened") {
  SimCounters sum;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    World world(Rough(seed));
    REQUIRE(Flood(world, 5000) == 12 * 5000);
    const SimCounters counters = world.network.counters();
    sum.slices += counters.slices;
    sum.clogs += counters.clogs;
    sum.full_writes += counters.full_writes;
  }
  CHECK(sum.slices > 0);
  CHECK(sum.clogs > 0);
  CHECK(sum.full_writes > 0);
}

TEST_CASE("survivors learn who died, each once, at different times, and go on among themselves") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    World world(Rough(seed));
    world.network.Kill(2, world.network.clock()->Now() + microseconds(100 * seed));
    Flood(world, 5000);
    CHECK(world.network.counters().kills == 1);
    CHECK(world.network.counters().losses == 3);
    for (Rank rank : {0, 1, 3}) {
      CHECK(world.observers[rank].told == "lost 2 ");
      CHECK(world.lane(rank, 2).state() == LaneState::kFailed);
      CHECK(world.lane(rank, 2).failure()->culprit() == 2);
      for (Rank peer : {0, 1, 3})
        if (peer != rank) CHECK(world.lane(rank, peer).consumed() == 5000);
    }
    CHECK(world.observers[2].told.empty());
  }
}

TEST_CASE("nothing that a rank writes after its death leaves it") {
  World world({.world_size = 2, .clock = nullptr});
  world.Run();
  CHECK(Put(world.lane(0, 1), AsBytes("before")) == 6);
  world.network.Kill(0, world.network.clock()->Now());
  REQUIRE(world.Step());
  CHECK(world.network.counters().kills == 1);
  CHECK(Put(world.lane(0, 1), AsBytes("after")) == 0);
  CHECK_FALSE(world.endpoints[0]->SendControl(1, {ControlKind::kAbort, "after"}));
  world.Run();
  std::byte got[20];
  CHECK(world.lane(1, 0).ReadInto(got) == 6);
  CHECK(world.lane(1, 0).state() == LaneState::kFailed);
  CHECK(world.observers[1].told == "lost 0 ");
}

TEST_CASE("time passes only in Step, and a clock that was handed in is the one that moves") {
  auto clock = std::make_shared<ManualClock>();
  const TimePoint start = clock->Now();
  World world({.world_size = 2,
               .link = {.min_delay = milliseconds(3),
                        .max_delay = milliseconds(3),
                        .min_connect = milliseconds(1),
                        .max_connect = milliseconds(1)},
               .clock = clock});
  CHECK(clock->Now() == start);
  CHECK(world.network.NextEventTime() == start + milliseconds(1));
  world.Run();
  CHECK(clock->Now() == start + milliseconds(1));
  CHECK_FALSE(world.network.NextEventTime().has_value());
  Put(world.lane(0, 1), AsBytes("x"));
  bool acted = false;
  world.network.At(start + milliseconds(2), [&] { acted = true; });
  REQUIRE(world.Step());
  CHECK(acted);
  CHECK(world.lane(1, 0).Peek(1).size() == 0);
  REQUIRE(world.Step());
  CHECK(clock->Now() == start + milliseconds(4));
  CHECK(world.lane(1, 0).Peek(1).size() == 1);
}

TEST_CASE("a slow link delays by its bytes, and a link's settings are its own") {
  SimOptions options{.world_size = 2, .clock = nullptr};
  options.link = {.min_delay = {}, .max_delay = {}};
  World world(options);
  world.Run();
  SimLink slow = options.link;
  slow.bytes_per_second = 1'000'000;
  world.network.SetLink(0, 1, slow);
  const TimePoint start = world.network.clock()->Now();
  const std::vector<std::byte> bytes(1000);
  Put(world.lane(0, 1), bytes);
  Put(world.lane(1, 0), bytes);
  REQUIRE(world.Step());
  CHECK(world.lane(0, 1).Peek(1).size() == 1000);
  CHECK(world.network.clock()->Now() == start);
  REQUIRE(world.Step());
  CHECK(world.lane(1, 0).Peek(1).size() == 1000);
  CHECK(world.network.clock()->Now() == start + milliseconds(1));
}

TEST_CASE("only ranks to which something happened are to be polled") {
  World world({.world_size = 3, .clock = nullptr});
  world.Run();
  CHECK(world.network.RanksToPoll().empty());
  world.endpoints[1]->Wake();
  CHECK(world.network.RanksToPoll() == std::vector<Rank>{1});
  world.endpoints[1]->Poll({});
  CHECK(world.network.RanksToPoll().empty());
  Put(world.lane(0, 2), AsBytes("x"));
  REQUIRE(world.network.Step());
  CHECK(world.network.RanksToPoll() == std::vector<Rank>{2});
}

TEST_CASE("who wrote, said goodbye and left before the peer came has ended in order, not died") {
  SimNetwork network({.world_size = 2, .clock = nullptr});
  EndpointConfig config;
  config.addresses = {network.transport(0)->Address(), network.transport(1)->Address()};
  Recorder early_told;
  config.observer = &early_told;
  auto early = *network.transport(0)->OpenEndpoint(config);
  Lane* lane = *early->Open(1, 0);
  const auto pass = [&] {
    while (network.Step()) {
    }
  };
  pass();
  early->Poll(network.clock()->Now());
  CHECK(Put(*lane, AsBytes("last")) == 4);
  CHECK(early->SendControl(1, {ControlKind::kGoodbye, "bye"}));
  early->ShutDown();
  pass();
  early.reset();
  pass();

  Recorder late_told;
  config.rank = 1;
  config.observer = &late_told;
  auto late = *network.transport(1)->OpenEndpoint(config);
  lane = *late->Open(0, 0);
  pass();
  late->Poll(network.clock()->Now());
  std::byte got[10];
  CHECK(lane->ReadInto(got) == 4);
  CHECK(lane->state() == LaneState::kEnded);
  CHECK(late_told.told == "0:bye ");
}

}  // namespace
}  // namespace rondo
