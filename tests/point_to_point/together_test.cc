// Frames that are ready at the same time are sent in one write: one system call on sockets, one work request with RDMA.
// The modes of engine_test.cc test lanes that accept writes only in parts.
#include <doctest/doctest.h>

#include <deque>
#include <memory>
#include <vector>

#include "tests/point_to_point/world.h"
#include "tests/support/passing_lane.h"

namespace rondo {
namespace together_test {

// Passes calls on to another lane, and counts its writes.
class CountedLane final : public PassingLane {
 public:
  using PassingLane::PassingLane;

  std::size_t Write(std::span<const Bytes> pieces) override {
    std::size_t bytes = 0;
    for (const Bytes piece : pieces) bytes += piece.size();
    writes.push_back(bytes);
    return lane().Write(pieces);
  }

  std::vector<std::size_t> writes;  // bytes of each write
};

// One end of the protocol, with open lanes.
struct End {
  End(MessageWorld& world, Rank self, const MessageLimits& limits)
      : matching(2),
        completions(nullptr),
        lane(**world.endpoint(self).Open(1 - self, kMessageLaneIndex)),
        messages(std::make_unique<MessageLane>(limits, lane, self, matching, completions)) {}

  void Send(TestOperation& one, Tag tag, const std::string& text) {
    one.Lend(text);
    one.operation.sends = true;
    one.operation.tag = tag;
    one.operation.type = DataType::kUint8;
    messages->Send(one.operation);
  }
  void Receive(TestOperation& one, Rank from, Tag tag, std::size_t room) {
    one.Lend(std::string(room, '\x5a'));
    one.operation.peer = from;
    one.operation.tag = tag;
    one.operation.type = DataType::kUint8;
    matching.Post(one.operation);
  }

  Matching matching;
  Completions completions;
  CountedLane lane;
  // On the heap, because the address sanitizer's stack does not keep the alignment of cache lines.
  std::unique_ptr<MessageLane> messages;
};

struct Pair {
  explicit Pair(const MessageLimits& limits = {}) : world({}), from(world, 0, limits), to(world, 1, limits) {
    while (from.lane.state() == LaneState::kConnecting || to.lane.state() == LaneState::kConnecting)
      for (const Rank rank : {0, 1}) world.endpoint(rank).Poll(TimePoint{});
  }
  void Finish(const std::deque<TestOperation>& all) {
    for (int turn = 0; turn < 1000; ++turn) {
      for (const Rank rank : {0, 1}) world.endpoint(rank).Poll(TimePoint{});
      REQUIRE(from.messages->Poll());
      REQUIRE(to.messages->Poll());
    }
    for (const TestOperation& one : all) REQUIRE(one.good());
  }

  MessageWorld world;
  End from, to;
  std::deque<TestOperation> sends, receives;
};

TEST_CASE("messages that wait together go out in one write, and come in their order") {
  Pair pair;
  constexpr int kMessages = 5;
  for (int i = 0; i < kMessages; ++i) {
    pair.to.Receive(pair.receives.emplace_back(), 0, 3, 100);
    pair.from.Send(pair.sends.emplace_back(), 3, Payload(0, 3, i, std::size_t{10} * static_cast<std::size_t>(i) + 1));
  }
  REQUIRE(pair.from.messages->Poll());
  CHECK(pair.from.lane.writes == std::vector<std::size_t>{kMessages * (kFrameHeaderBytes + kLineBytes)});
  pair.Finish(pair.sends);
  pair.Finish(pair.receives);
  for (int i = 0; i < kMessages; ++i)
    CHECK(pair.receives[static_cast<std::size_t>(i)].text() ==
          Payload(0, 3, i, std::size_t{10} * static_cast<std::size_t>(i) + 1));
}

TEST_CASE("with checksums too") {
  Pair pair({.checksums = true});
  for (int i = 0; i < 3; ++i) {
    pair.to.Receive(pair.receives.emplace_back(), 0, 3, 100);
    pair.from.Send(pair.sends.emplace_back(), 3, Payload(0, 3, i, 50));
  }
  REQUIRE(pair.from.messages->Poll());
  CHECK(pair.from.lane.writes.size() == 1);
  pair.Finish(pair.sends);
  pair.Finish(pair.receives);
}

TEST_CASE("what one write holds is bounded, in frames and in bytes") {
  Pair pair({.eager_message_bytes = 64 << 10, .eager_credit_bytes = 4 << 20});
  for (int i = 0; i < 20; ++i) pair.from.Send(pair.sends.emplace_back(), 3, "x");
  REQUIRE(pair.from.messages->Poll());
  std::vector<std::size_t> frames;
  for (const std::size_t bytes : pair.from.lane.writes) frames.push_back(bytes / (kFrameHeaderBytes + kLineBytes));
  CHECK(frames == std::vector<std::size_t>{8, 8, 4});
}

TEST_CASE("of a body that takes more than a frame, one frame goes out at a time") {
  Pair pair({.eager_message_bytes = 0, .body_frame_bytes = 128});
  for (int i = 0; i < 2; ++i) {
    pair.to.Receive(pair.receives.emplace_back(), 0, 3, 300);
    pair.from.Send(pair.sends.emplace_back(), 3, Payload(0, 3, i, 300));
  }
  pair.Finish(pair.sends);
  pair.Finish(pair.receives);
  CHECK(pair.from.lane.writes.front() == 2 * kFrameHeaderBytes);  // contains both announcements
  for (const std::size_t bytes : pair.from.lane.writes) CHECK(bytes <= 4 * kFrameHeaderBytes + 128 + kLineBytes);
  for (int i = 0; i < 2; ++i) CHECK(pair.receives[static_cast<std::size_t>(i)].text() == Payload(0, 3, i, 300));
}

}  // namespace together_test
}  // namespace rondo
