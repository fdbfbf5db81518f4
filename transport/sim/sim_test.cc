// Tests the features that only the simulated network has: virtual time, seeds, counted faults. tests/conformance tests
// the promises of every transport.
#include "transport/sim/sim.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/pattern.h"
#include "transport/tcp/handshake.h"

namespace rondo {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

struct Recorder final : PeerObserver {
  std::string events_seen;
  void OnControl(Rank from, ControlMessage message) override {
    events_seen += std::to_string(from) + ":" + message.body + " ";
  }
  void OnPeerLost(Rank peer, Error) override { events_seen += "lost " + std::to_string(peer) + " "; }
};

// A network on which every rank has a lane to every other rank.
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

// Every rank sends `total` pattern bytes to every other rank and reads arriving bytes, until no event is left. Returns
// the number of bytes that arrived unchanged, over all lanes.
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
      CHECK(world.observers[rank].events_seen == "lost 2 ");
      CHECK(world.lane(rank, 2).state() == LaneState::kFailed);
      CHECK(world.lane(rank, 2).failure()->culprit() == 2);
      for (Rank peer : {0, 1, 3})
        if (peer != rank) CHECK(world.lane(rank, peer).consumed() == 5000);
    }
    CHECK(world.observers[2].events_seen.empty());
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
  CHECK(world.observers[1].events_seen == "lost 0 ");
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
  Recorder early_observer;
  config.observer = &early_observer;
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

  Recorder late_recorder;
  config.rank = 1;
  config.observer = &late_recorder;
  auto late = *network.transport(1)->OpenEndpoint(config);
  lane = *late->Open(0, 0);
  pass();
  late->Poll(network.clock()->Now());
  std::byte got[10];
  CHECK(lane->ReadInto(got) == 4);
  CHECK(lane->state() == LaneState::kEnded);
  CHECK(late_recorder.events_seen == "0:bye ");
}

// ---- faults ----

SimOptions Calm(int world_size) {
  SimOptions options{.world_size = world_size, .clock = nullptr};
  options.link = {.min_delay = milliseconds(1), .max_delay = milliseconds(1)};
  options.max_loss_delay = {};
  return options;
}

TEST_CASE("a partition holds back what is sent, in order, until it is over") {
  World world(Calm(2));
  world.Run();
  const TimePoint start = world.network.clock()->Now();
  const Rank from[] = {0}, to[] = {1};
  world.network.Partition(from, to, start, start + milliseconds(50));
  REQUIRE(world.Step());
  Put(world.lane(0, 1), AsBytes("one "));
  Put(world.lane(0, 1), AsBytes("two"));
  world.endpoints[0]->SendControl(1, {ControlKind::kHeartbeat, "a"});
  world.endpoints[0]->SendControl(1, {ControlKind::kHeartbeat, "b"});
  Put(world.lane(1, 0), AsBytes("back"));
  while (world.network.NextEventTime() < start + milliseconds(50)) world.Step();
  CHECK(world.lane(1, 0).Peek(1).size() == 0);
  CHECK(world.observers[1].events_seen.empty());
  CHECK(world.lane(0, 1).Peek(1).size() == 4);  // the other direction is not blocked
  CHECK(world.network.counters().held_back >= 4);
  world.Run();
  std::byte got[10];
  CHECK(world.lane(1, 0).ReadInto(got) == 7);
  CHECK(ToText(Bytes(got).first(7)) == "one two");
  CHECK(world.observers[1].events_seen == "0:a 0:b ");
  CHECK(world.network.counters().silences == 0);
}

TEST_CASE("a partition that lasts too long ends the connections of both sides") {
  SimOptions options = Calm(3);
  options.silence_timeout = milliseconds(100);
  World world(options);
  world.Run();
  const Rank from[] = {2}, to[] = {0};
  world.network.Partition(from, to, world.network.clock()->Now());
  world.Run();
  CHECK(world.network.counters().silences == 1);
  CHECK(world.observers[0].events_seen == "lost 2 ");
  CHECK(world.observers[2].events_seen == "lost 0 ");
  CHECK(world.observers[1].events_seen.empty());
  CHECK(world.lane(0, 2).state() == LaneState::kFailed);
  CHECK(world.lane(1, 2).state() == LaneState::kOpen);
}

TEST_CASE("healing ends partitions and pauses, and forgets faults that have not fired") {
  World world(Calm(2));
  world.Run();
  const TimePoint start = world.network.clock()->Now();
  const Rank from[] = {0}, to[] = {1};
  world.network.Partition(from, to, start);
  world.network.Pause(1, start);
  world.network.Kill(1, start + milliseconds(500));
  world.network.KillAtEvent(1, 100'000);
  world.network.Cut({.from = 0, .to = 1}, 2);
  REQUIRE(world.Step());
  REQUIRE(world.Step());
  CHECK(world.network.paused(1));
  Put(world.lane(0, 1), AsBytes("waits"));
  while (world.network.NextEventTime() < start + milliseconds(100)) world.Step();
  world.network.Heal();
  CHECK_FALSE(world.network.paused(1));
  world.Run();
  CHECK(world.lane(1, 0).Peek(1).size() == 5);
  CHECK_FALSE(world.network.killed(1));
  CHECK(world.network.counters().cuts == 0);
}

TEST_CASE("a lane that is cut at a byte fails on both sides, with what came before it, and no rank dies") {
  World world(Calm(2));
  world.Run();
  world.network.Cut({.from = 0, .to = 1}, 6);
  Put(world.lane(0, 1), AsBytes("four"));
  world.Run();
  CHECK(world.network.counters().cuts == 0);
  Put(world.lane(0, 1), AsBytes("more"));
  world.Run();
  CHECK(world.network.counters().cuts == 1);
  std::byte got[10];
  CHECK(world.lane(1, 0).ReadInto(got) == 6);
  for (const Rank rank : {0, 1}) {
    CHECK(world.lane(rank, 1 - rank).state() == LaneState::kFailed);
    CHECK(world.lane(rank, 1 - rank).failure()->code() == ErrorCode::kConnectionReset);
    CHECK(world.observers[static_cast<std::size_t>(rank)].events_seen.empty());
  }
  CHECK(Put(world.lane(0, 1), AsBytes("lost")) == 0);
}

TEST_CASE("a control connection that is cut is lost on both sides, with the message that was under way") {
  World world(Calm(2));
  world.Run();
  world.network.Cut({.from = 0, .to = 1, .lane = std::nullopt}, 12);
  world.endpoints[0]->SendControl(1, {ControlKind::kHeartbeat, "a"});
  world.endpoints[0]->SendControl(1, {ControlKind::kHeartbeat, "b"});
  world.Run();
  CHECK(world.network.counters().cuts == 1);
  CHECK(world.observers[1].events_seen == "0:a lost 0 ");
  CHECK(world.observers[0].events_seen == "lost 1 ");
}

TEST_CASE("one bit is turned on the way, wherever the slices end") {
  SimOptions options = Calm(2);
  options.link.max_slice_bytes = 3;
  World world(options);
  world.Run();
  world.network.Corrupt({.from = 0, .to = 1}, /*byte=*/7, /*bit=*/5);
  Put(world.lane(0, 1), AsBytes("0123456789"));
  Put(world.lane(1, 0), AsBytes("0123456789"));
  world.Run();
  CHECK(world.network.counters().flips == 1);
  std::byte got[10];
  REQUIRE(world.lane(1, 0).ReadInto(got) == 10);
  CHECK(ToText(got) == std::string("0123456") + static_cast<char>('7' ^ 32) + "89");
  REQUIRE(world.lane(0, 1).ReadInto(got) == 10);
  CHECK(ToText(got) == "0123456789");
}

TEST_CASE("a stopped rank must not be polled, takes bytes until its buffer is full, and receives everything later") {
  SimOptions options = Calm(2);
  options.control_thread = true;
  options.buffer_bytes = 64;
  World world(options);
  world.Run();
  world.network.TakeTouched();
  const TimePoint start = world.network.clock()->Now();
  world.network.Pause(1, start, start + milliseconds(20));
  REQUIRE(world.Step());
  const std::vector<std::byte> bytes(100);
  CHECK(Put(world.lane(0, 1), bytes) == 64);
  world.endpoints[0]->SendControl(1, {ControlKind::kHeartbeat, "a"});
  while (world.network.NextEventTime() < start + milliseconds(20)) {
    world.Step();
    for (const Rank rank : world.network.RanksToPoll()) CHECK(rank != 1);
  }
  CHECK(world.observers[1].events_seen.empty());
  CHECK(Put(world.lane(0, 1), bytes) == 0);
  world.Run();
  CHECK(world.network.counters().pauses == 1);
  CHECK(world.observers[1].events_seen == "0:a ");
  CHECK(world.lane(1, 0).Peek(1).size() == 64);
  CHECK(world.network.TakeTouched() == std::vector<Rank>{1});
}

TEST_CASE("a rank can be killed at any event") {
  World world(Calm(2));
  world.Run();
  const std::uint64_t now = world.network.counters().events;
  world.network.KillAtEvent(1, now + 2);
  for (const char* word : {"a", "b", "c"}) world.endpoints[0]->SendControl(1, {ControlKind::kHeartbeat, word});
  REQUIRE(world.network.Step());
  CHECK_FALSE(world.network.killed(1));
  REQUIRE(world.network.Step());
  CHECK(world.network.killed(1));
  world.Run();
  CHECK(world.observers[0].events_seen == "lost 1 ");
}

TEST_CASE("memory that is read late is released when it was read, and not a byte before") {
  SimOptions options = Calm(2);
  options.reads_late = true;
  World world(options);
  world.Run();
  std::string source = "as it was";
  CHECK(Put(world.lane(0, 1), AsBytes(source)) == 9);
  CHECK(world.lane(0, 1).accepted() == 9);
  CHECK(world.lane(0, 1).released() == 0);
  world.Run();
  CHECK(world.lane(0, 1).released() == 9);
  source = "overwritten";
  std::byte got[20];
  REQUIRE(world.lane(1, 0).ReadInto(got) == 9);
  CHECK(ToText(Bytes(got).first(9)) == "as it was");
}

TEST_CASE("released too early, what was overwritten is sent") {
  SimOptions options = Calm(2);
  options.reads_late = true;
  options.sabotage.releases_early = true;
  World world(options);
  world.Run();
  std::string source = "as it was";
  CHECK(Put(world.lane(0, 1), AsBytes(source)) == 9);
  CHECK(world.lane(0, 1).released() == 9);
  source.replace(0, 2, "XX");
  world.Run();
  std::byte got[20];
  REQUIRE(world.lane(1, 0).ReadInto(got) == 9);
  CHECK(ToText(Bytes(got).first(9)) == "XX it was");
}

// ---- handshakes ----

// Two processes of one job, each with an endpoint. The test chooses their generations and instances.
struct Pair {
  explicit Pair(std::uint64_t generation_of_0 = 3) : network(Options()) {
    const std::uint64_t generations[] = {generation_of_0, 3};
    for (Rank rank : {0, 1})
      transports.push_back(network.OpenTransport(
          rank, {.job = "job", .generation = generations[rank], .instance = "process " + std::to_string(rank)}));
  }
  static SimOptions Options() {
    SimOptions options = Calm(2);
    options.handshakes = true;
    options.control_thread = true;
    return options;
  }
  void Open(Rank rank) {
    EndpointConfig config;
    config.rank = rank;
    config.addresses = {transports[0]->Address(), transports[1]->Address()};
    config.observer = &observers[rank];
    config.connect_timeout = milliseconds(500);
    endpoints[rank] = *transports[static_cast<std::size_t>(rank)]->OpenEndpoint(config);
  }
  Lane& lane(Rank rank) { return **endpoints[rank]->Open(1 - rank, 0); }
  void Run() {
    do {
      for (Rank rank : network.RanksToPoll()) endpoints[rank]->Poll(network.clock()->Now());
    } while (network.Step());
  }

  SimNetwork network;
  Recorder observers[2];
  std::vector<std::shared_ptr<Transport>> transports;
  std::unique_ptr<Endpoint> endpoints[2];
};

TEST_CASE("with handshakes a lane opens once both sides have judged, and what was said before follows") {
  Pair pair;
  pair.Open(1);
  pair.lane(1);
  CHECK(pair.endpoints[1]->SendControl(0, {ControlKind::kHeartbeat, "early"}));
  while (pair.network.NextEventTime() < pair.network.clock()->Now() + milliseconds(100)) pair.network.Step();
  CHECK(pair.network.counters().hellos == 1);
  // The connection waits, because the peer's endpoint is not open yet.
  CHECK(pair.lane(1).state() == LaneState::kConnecting);
  pair.Open(0);
  pair.lane(0);
  pair.Run();
  CHECK(pair.lane(0).state() == LaneState::kOpen);
  CHECK(pair.lane(1).state() == LaneState::kOpen);
  CHECK(pair.observers[0].events_seen == "1:early ");
  CHECK(pair.network.counters().refusals == 0);
  CHECK(Put(pair.lane(0), AsBytes("x")) == 1);
  pair.Run();
  CHECK(pair.lane(1).Peek(1).size() == 1);
}

TEST_CASE("another generation is refused, and both are events_seen apart") {
  Pair pair(/*generation_of_0=*/4);
  pair.Open(0);
  pair.Open(1);
  pair.lane(1);
  pair.Run();
  CHECK(pair.network.counters().refusals == 1);
  CHECK(pair.observers[1].events_seen == "lost 0 ");
  CHECK(pair.lane(1).state() == LaneState::kConnecting);
}

TEST_CASE("a process that took over another's port refuses clients of the former process") {
  Pair pair;
  pair.Open(1);
  pair.network.OpenTransport(0, {.job = "job", .generation = 3, .instance = "another process"});
  pair.lane(1);
  pair.Run();
  CHECK(pair.network.counters().refusals == 1);
  CHECK(pair.observers[1].events_seen == "lost 0 ");
}

TEST_CASE("who is called and never comes is given up at the connect timeout") {
  Pair pair;
  pair.Open(1);
  pair.lane(1);
  const TimePoint start = pair.network.clock()->Now();
  pair.Run();
  CHECK(pair.observers[1].events_seen == "lost 0 ");
  CHECK(pair.network.clock()->Now() == start + milliseconds(500));
}

TEST_CASE("foreign clients are dropped without an answer; who claims a rank of another process is refused") {
  Pair pair;
  pair.Open(0);
  pair.Open(1);
  pair.lane(0);
  pair.lane(1);
  pair.Run();
  std::vector<std::byte> answer;
  const auto call = [&](Bytes bytes) {
    answer.clear();
    pair.network.Call(0, {bytes.begin(), bytes.end()}, pair.network.clock()->Now(),
                      [&](Bytes said) { answer.assign(said.begin(), said.end()); });
    pair.Run();
  };
  call(AsBytes("GET / HTTP/1.1"));
  CHECK(answer.empty());
  CHECK(pair.network.counters().unknown == 1);
  call(tcp::Encode(tcp::Hello{.communicator = 0,
                              .generation = 3,
                              .from = 1,
                              .to = 0,
                              .job = "job",
                              .from_instance = "a second rank 1",
                              .to_instance = "process 0"}));
  CHECK_FALSE(answer.empty());
  CHECK(pair.network.counters().refusals == 1);
  CHECK(pair.observers[0].events_seen.empty());
  CHECK(pair.lane(0).state() == LaneState::kOpen);
}

}  // namespace
}  // namespace rondo
