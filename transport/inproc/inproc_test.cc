// Tests the features that only the in-process transport has. tests/conformance tests the promises of every transport.
#include "transport/inproc/inproc.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace rondo {
namespace {

struct Recorder final : PeerObserver {
  std::vector<std::pair<Rank, std::string>> controls;
  std::vector<std::pair<Rank, Error>> losses;
  void OnControl(Rank from, ControlMessage message) override { controls.emplace_back(from, message.body); }
  void OnPeerLost(Rank peer, Error error) override { losses.emplace_back(peer, error); }
};

struct Pair {
  explicit Pair(const InprocOptions& options = {}) : network(2, options) {
    for (Rank rank : {0, 1}) {
      EndpointConfig config;
      config.communicator = 7;
      config.rank = rank;
      config.addresses = {network.transport(0)->Address(), network.transport(1)->Address()};
      config.observer = &observers[rank];
      endpoints.push_back(*network.transport(rank)->OpenEndpoint(config));
    }
    for (Rank rank : {0, 1}) lanes[rank] = *endpoints[rank]->Open(1 - rank, 0);
  }
  void Poll() {
    for (auto& endpoint : endpoints) endpoint->Poll({});
  }

  InprocNetwork network;
  Recorder observers[2];
  std::vector<std::unique_ptr<Endpoint>> endpoints;
  Lane* lanes[2];
};

std::size_t Put(Lane& lane, std::string_view text) {
  const Bytes pieces[] = {AsBytes(text)};
  return lane.Write(pieces);
}

std::string Take(Lane& lane, std::size_t bytes) {
  std::string text(bytes, '?');
  text.resize(lane.ReadInto(std::as_writable_bytes(std::span(text.data(), text.size()))));
  return text;
}

TEST_CASE("bytes written on one side are read on the other") {
  Pair pair;
  CHECK(Put(*pair.lanes[0], "hello") == 5);
  CHECK(Take(*pair.lanes[1], 100) == "hello");
  CHECK(pair.lanes[0]->released() == 5);
}

TEST_CASE("reluctant memory is read where it lies, and released only when the peer has consumed it") {
  Pair pair({.reluctant = true});
  std::string text = "before";
  CHECK(Put(*pair.lanes[0], text) == 6);
  CHECK(pair.lanes[0]->released() == 0);
  text = "after!";  // breaks a rule on purpose: a user must not write before the bytes are released
  CHECK(Take(*pair.lanes[1], 3) == "aft");
  CHECK(pair.lanes[0]->released() == 3);
  CHECK(Take(*pair.lanes[1], 3) == "er!");
  CHECK(pair.lanes[0]->released() == 6);
  CHECK(pair.network.counters().zero_copy_bytes == 6);
}

TEST_CASE("a pushed byte is in its window before the receiver looks") {
  Pair pair({.push = true});
  std::string window(4, '.');
  const MutableBytes memory = std::as_writable_bytes(std::span(window.data(), window.size()));
  REQUIRE(pair.lanes[1]->Expect(2, memory));
  CHECK(Put(*pair.lanes[0], "abcdefgh") == 8);
  CHECK(window == "cdef");
  CHECK(Take(*pair.lanes[1], 2) == "ab");
  CHECK(pair.lanes[1]->ReadInto(memory) == 4);
  CHECK(Take(*pair.lanes[1], 9) == "gh");
  CHECK(pair.network.counters().pushed_bytes == 4);
}

TEST_CASE("a reluctant lane that pushes sends without a copy what no window covers") {
  Pair pair({.reluctant = true, .push = true});
  std::string window(4, '.');
  const MutableBytes memory = std::as_writable_bytes(std::span(window.data(), window.size()));
  REQUIRE(pair.lanes[1]->Expect(2, memory));
  std::string text = "abcdefgh";
  CHECK(Put(*pair.lanes[0], text) == 8);
  CHECK(window == "cdef");
  text = "ABCDEFGH";  // breaks a rule on purpose: a user must not write before the bytes are released
  CHECK(Take(*pair.lanes[1], 2) == "AB");
  CHECK(pair.lanes[0]->released() == 6);
  CHECK(pair.lanes[1]->ReadInto(memory) == 4);
  CHECK(window == "cdef");
  CHECK(Take(*pair.lanes[1], 9) == "GH");
  CHECK(pair.lanes[0]->released() == 8);
  CHECK(pair.network.counters().zero_copy_bytes == 4);
  CHECK(pair.network.counters().pushed_bytes == 4);
}

TEST_CASE("a killed rank is reported by name, and what it wrote before can be read") {
  Pair pair;
  Put(*pair.lanes[0], "last bytes");
  pair.network.Kill(0);
  CHECK(Put(*pair.lanes[0], "from beyond") == 0);
  pair.Poll();
  CHECK(pair.lanes[0]->state() == LaneState::kFailed);
  CHECK(pair.lanes[1]->state() == LaneState::kOpen);
  CHECK(Take(*pair.lanes[1], 100) == "last bytes");
  REQUIRE(pair.lanes[1]->state() == LaneState::kFailed);
  CHECK(pair.lanes[1]->failure()->code() == ErrorCode::kPeerLost);
  CHECK(pair.lanes[1]->failure()->culprit() == 0);
  REQUIRE(pair.observers[1].losses.size() == 1);
  CHECK(pair.observers[1].losses[0].second.culprit() == 0);
  CHECK(pair.observers[0].losses.empty());
}

TEST_CASE("who wrote, said goodbye and left before the peer came has ended in order, not died") {
  InprocNetwork network(2);
  EndpointConfig config;
  config.addresses = {network.transport(0)->Address(), network.transport(1)->Address()};
  Recorder early_observer;
  config.observer = &early_observer;
  auto early = *network.transport(0)->OpenEndpoint(config);
  Lane* lane = *early->Open(1, 0);
  early->Poll({});
  CHECK(Put(*lane, "last") == 4);
  CHECK(early->SendControl(1, {ControlKind::kGoodbye, "bye"}));
  early->ShutDown();
  early.reset();

  Recorder late_observer;
  config.rank = 1;
  config.observer = &late_observer;
  auto late = *network.transport(1)->OpenEndpoint(config);
  lane = *late->Open(0, 0);
  late->Poll({});
  std::byte got[10];
  CHECK(lane->ReadInto(got) == 4);
  CHECK(lane->state() == LaneState::kEnded);
  CHECK(late_observer.losses.empty());
  REQUIRE(late_observer.controls.size() == 1);
  CHECK(late_observer.controls[0].second == "bye");
}

}  // namespace
}  // namespace rondo
