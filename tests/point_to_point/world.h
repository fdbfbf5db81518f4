// N message engines over an in-process network, all polled by one thread. This is the fixture of the engine's tests.
//
//   MessageWorld world({.ranks = 2});
//   auto& sent = world.Send(0, 1, /*tag=*/7, Text("hello"));
//   auto& got = world.Recv(1, 0, 7, /*room=*/100);
//   world.Finish();                                    // polls all ranks until everything has ended
//   CHECK(got.text() == "hello");
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "collectives/point_to_point/message_engine.h"
#include "collectives/point_to_point/message_frame.h"
#include "tests/support/flipping.h"
#include "transport/inproc/inproc.h"

namespace rondo {

struct MessageWorldOptions {
  int ranks = 2;
  InprocOptions network = {};
  MessageLimits limits = {};
  std::uint64_t seed = 1;
  FlippedBit* flipped = nullptr;  // must outlive the world
};

// A send or receive with its own memory, between two guard areas that must stay intact.
class TestOperation {
 public:
  MessageOperation operation;

  bool final() const { return operation.final.load(); }
  bool good() const { return final() && !operation.error; }
  // The operation's error; "" if it has not failed.
  std::string error() const { return operation.error ? operation.error->ToString() : ""; }
  // The text that a receive got.
  std::string text() const {
    return std::string(memory_.begin() + kWall, memory_.begin() + kWall + static_cast<std::ptrdiff_t>(received()));
  }
  std::uint64_t received() const { return operation.message.count * SizeOf(operation.message.type); }
  bool walls_stand() const {
    const auto brick = [](char c) { return c == kBrick; };
    return std::all_of(memory_.begin(), memory_.begin() + kWall, brick) &&
           std::all_of(memory_.end() - kWall, memory_.end(), brick);
  }
  // Whether only the received bytes have been written.
  bool rest_untouched() const {
    return std::all_of(memory_.begin() + kWall + static_cast<std::ptrdiff_t>(received()), memory_.end(),
                       [](char c) { return c == kBrick; });
  }
  void Lend(const std::string& text) {
    memory_.assign(text.size() + 2 * kWall, kBrick);
    std::copy(text.begin(), text.end(), memory_.begin() + kWall);
    operation.buffer = reinterpret_cast<std::byte*>(memory_.data() + kWall);
    operation.bytes = text.size();
  }
  // Overwrites the memory, which belongs to the user again.
  void Scribble() { std::fill(memory_.begin() + kWall, memory_.end() - kWall, '#'); }

 private:
  static constexpr int kWall = 16;
  static constexpr char kBrick = '\x5a';
  std::vector<char> memory_;
};

class MessageWorld {
 public:
  explicit MessageWorld(const MessageWorldOptions& options)
      : options_(options), random_(options.seed), network_(options.ranks, options.network) {
    std::vector<std::string> addresses;
    for (Rank r = 0; r < options.ranks; ++r) addresses.push_back(network_.transport(r)->Address());
    for (Rank r = 0; r < options.ranks; ++r) {
      ranks_.push_back(std::make_unique<RankParts>());
      RankParts& rank = *ranks_.back();
      EndpointConfig config;
      config.communicator = 1;
      config.rank = r;
      config.addresses = addresses;
      config.observer = &rank;
      auto endpoint = network_.transport(r)->OpenEndpoint(config);
      REQUIRE(endpoint);
      rank.endpoint = std::move(*endpoint);
      if (options.flipped != nullptr)
        rank.endpoint = std::make_unique<FlippingEndpoint>(std::move(rank.endpoint), r, *options.flipped);
      rank.engine = std::make_unique<MessageEngine>(
          MessageEngineOptions{.rank = r, .world_size = options.ranks, .limits = options.limits}, *rank.endpoint);
    }
  }

  InprocNetwork& network() { return network_; }
  MessageEngine& engine(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)]->engine; }
  Endpoint& endpoint(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)]->endpoint; }
  Random& random() { return random_; }

  TestOperation& Send(Rank from, Rank to, Tag tag, const std::string& text, DataType type = DataType::kUint8) {
    return Start(from, true, to, tag, text, type);
  }
  TestOperation& Recv(Rank at, Rank from, Tag tag, std::size_t room, DataType type = DataType::kUint8) {
    return Start(at, false, from, tag, std::string(room, '\x5a'), type);
  }

  // Polls one rank once. The first error is kept.
  bool Poll(Rank r) {
    RankParts& rank = *ranks_[static_cast<std::size_t>(r)];
    if (rank.failure) return false;
    rank.endpoint->Poll(TimePoint{});
    for (const Rank caller : std::exchange(rank.calls, {})) rank.engine->AcceptLane(caller);
    const Result<bool> moved = rank.engine->Poll();
    rank.engine->TakeFinished();
    if (!moved) rank.failure = moved.error();
    return moved && *moved;
  }
  const std::optional<Error>& failure(Rank r) const { return ranks_[static_cast<std::size_t>(r)]->failure; }

  // Polls in random order until the condition holds; fails the test when nothing advances any more.
  template <typename Condition>
  void Until(const char* what, Condition holds) {
    int idle = 0;
    while (!holds()) {
      const bool moved = Poll(static_cast<Rank>(random_.Below(ranks_.size())));
      idle = moved ? 0 : idle + 1;
      if (idle > 100'000) {
        FAIL("nothing moves any more, though not yet: ", what);
      }
    }
  }
  // Polls until every operation that was started has ended.
  void Finish() {
    Until("everything has ended", [&] {
      return std::all_of(operations_.begin(), operations_.end(), [](const TestOperation& one) { return one.final(); });
    });
  }
  // Polls for so long that everything that can happen has happened.
  void Settle() {
    int idle = 0;
    while (idle < 200 * static_cast<int>(ranks_.size()))
      idle = Poll(static_cast<Rank>(random_.Below(ranks_.size()))) ? 0 : idle + 1;
  }

 private:
  struct RankParts final : PeerObserver {
    void OnControl(Rank from, ControlMessage message) override {
      if (message.kind == ControlKind::kHeartbeat && IsLaneCall(message.body)) calls.push_back(from);
    }
    void OnPeerLost(Rank, Error) override {}
    std::unique_ptr<Endpoint> endpoint;
    std::unique_ptr<MessageEngine> engine;
    std::vector<Rank> calls;
    std::optional<Error> failure;
  };

  TestOperation& Start(Rank at, bool sends, Rank peer, Tag tag, const std::string& memory, DataType type) {
    TestOperation& one = operations_.emplace_back();
    one.Lend(memory);
    one.operation.sends = sends;
    one.operation.peer = peer;
    one.operation.tag = tag;
    one.operation.type = type;
    one.operation.timeout = std::chrono::seconds(10);
    one.operation.deadline = TimePoint{} + std::chrono::seconds(10);
    engine(at).Start(one.operation);
    return one;
  }

  const MessageWorldOptions options_;
  Random random_;
  InprocNetwork network_;
  std::list<TestOperation> operations_;  // must outlive the engines
  std::vector<std::unique_ptr<RankParts>> ranks_;
};

// A text of `bytes` bytes that contains the sender, the tag, and the number of the message.
inline std::string Payload(Rank from, Tag tag, int number, std::size_t bytes) {
  const std::string word = std::to_string(from) + "/" + std::to_string(tag) + "/" + std::to_string(number) + " ";
  std::string text;
  text.reserve(bytes + word.size());
  while (text.size() < bytes) text += word;
  text.resize(bytes);
  return text;
}

struct MessageMode {
  const char* name;
  InprocOptions network;
};

inline std::vector<MessageMode> AwkwardMessageModes() {
  return {
      {"plain", {}},
      {"late release", {.late_release = true}},
      {"one byte at a time", {.ring_bytes = 1024, .slice_bytes = 1}},
      {"pieces of up to 13 bytes, smallest ring", {.ring_bytes = 64, .slice_bytes = 13}},
      {"reluctant", {.reluctant = true}},
      {"reluctant in pieces", {.slice_bytes = 200, .reluctant = true}},
      {"push in pieces", {.slice_bytes = 300, .push = true, .refuse_windows = 0.5}},
      {"reluctant, late release, slow to connect",
       {.late_release = true, .slice_bytes = 500, .reluctant = true, .slow_connect_polls = 9}},
  };
}

}  // namespace rondo
