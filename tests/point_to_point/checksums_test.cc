// Messages in frames with checksums arrive like messages without checksums. Whichever bit flips in transit, no receive
// succeeds with wrong bytes.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/point_to_point/world.h"
#include "tests/support/sanitized.h"

namespace rondo {
namespace checksums_test {

constexpr MessageLimits kSmall{.eager_message_bytes = 100,
                               .eager_credit_bytes = 512,
                               .max_announced_messages = 3,
                               .body_frame_bytes = 128,
                               .checksums = true};

TEST_CASE("messages of any length, both ways and more than all credits, in every awkward mode") {
  for (const MessageMode& mode : AwkwardMessageModes()) {
    CAPTURE(mode.name);
    MessageWorld world({.network = mode.network, .limits = kSmall});
    std::vector<TestOperation*> receives;
    for (int i = 0; i < 20; ++i)
      for (const Rank r : {0, 1}) {
        world.Send(r, 1 - r, i % 3, Payload(r, i % 3, i, static_cast<std::size_t>(i) * 37));
        receives.push_back(&world.Recv(r, 1 - r, i % 3, 1000));
      }
    world.Finish();
    for (int i = 0; i < 20; ++i)
      for (const Rank r : {0, 1}) {
        const TestOperation& got = *receives[2 * static_cast<std::size_t>(i) + static_cast<std::size_t>(r)];
        CHECK(got.good());
        CHECK(got.text() == Payload(1 - r, i % 3, i, static_cast<std::size_t>(i) * 37));
        CHECK(got.walls_stand());
        CHECK(got.rest_untouched());
      }
  }
}

TEST_CASE("what is thrown away is verified, too: a message too long for its receive, and then one that fits") {
  MessageWorld world({.limits = kSmall});
  world.Send(0, 1, 1, Payload(0, 1, 1, 90));
  TestOperation& short_one = world.Recv(1, 0, 1, 10);
  world.Send(0, 1, 2, Payload(0, 2, 2, 90));
  TestOperation& next = world.Recv(1, 0, 2, 90);
  world.Finish();
  CHECK(short_one.error().find("longer than its receive") != std::string::npos);
  CHECK(next.text() == Payload(0, 2, 2, 90));
}

// A message, and when its receive is posted.
struct Exchange {
  const char* what;
  std::size_t bytes;
  bool receive_first;
  std::size_t room = 1000;
};
const Exchange kExchanges[] = {{"small, straight into its receive", 90, true},
                               {"small, held first", 90, false},
                               {"small, too long for its receive", 90, true, 10},
                               {"without bytes", 0, true},
                               {"large, announced", 300, true},
                               {"large, announced and waiting", 300, false}};

struct Ending {
  bool fired = false;
  std::uint64_t stream_bytes = 0;
  std::optional<Error> failure_of_receiver, failure_of_sender;
  bool received = false;  // the receive succeeded
  bool right = false;
};

// Rank 0 sends to rank 1; a bit flips in the stream of rank `from`.
Ending Run(const MessageMode& mode, const MessageLimits& limits, const Exchange& exchange, FlippedBit bit) {
  bit.lane = kMessageLaneIndex;
  MessageWorld world({.network = mode.network, .limits = limits, .seed = bit.offset + 1, .flipped = &bit});
  const std::string text = Payload(0, 7, 1, exchange.bytes);
  TestOperation* got = exchange.receive_first ? &world.Recv(1, 0, 7, exchange.room) : nullptr;
  world.Send(0, 1, 7, text);
  if (!exchange.receive_first) world.Settle();
  if (!exchange.receive_first) got = &world.Recv(1, 0, 7, exchange.room);
  world.Settle();
  Ending ending{.fired = bit.fired == 1,
                .stream_bytes = bit.stream_bytes,
                .failure_of_receiver = world.failure(1),
                .failure_of_sender = world.failure(0),
                .received = got->good(),
                .right = got->good() && got->text() == text};
  // Revokes the lanes, as a communicator does after a failure. After that the engine must not use the memory.
  for (const Rank r : {0, 1}) world.endpoint(r).Revoke();
  for (const Rank r : {0, 1}) world.engine(r).FailAll(Error(ErrorCode::kClosed, "over"));
  return ending;
}

TEST_CASE("wherever one bit flips, its reader finds it and nothing wrong is received") {
  int flips = 0;
  for (const MessageMode& mode : AwkwardMessageModes()) {
    CAPTURE(mode.name);
    for (const Exchange& exchange : kExchanges) {
      CAPTURE(exchange.what);
      for (const Rank from : {0, 1}) {  // bodies are sent by rank 0, clear frames by rank 1
        CAPTURE(from);
        FlippedBit bit{.from = from, .to = 1 - from, .offset = UINT64_MAX};
        const Ending sound = Run(mode, kSmall, exchange, bit);
        CHECK(sound.received == (exchange.room >= exchange.bytes));
        CHECK(!sound.failure_of_receiver);
        for (bit.offset = 0; bit.offset < sound.stream_bytes; bit.offset += (bit.offset < 130 ? 1 : 11) * Every(5)) {
          CAPTURE(bit.offset);
          bit.mask = static_cast<unsigned char>(1 << bit.offset % 8);
          const Ending ending = Run(mode, kSmall, exchange, bit);
          CHECK(ending.fired);
          const std::optional<Error>& found = from == 0 ? ending.failure_of_receiver : ending.failure_of_sender;
          REQUIRE(found);
          CHECK(found->code() == ErrorCode::kCorrupt);
          CHECK(found->culprit() == from);
          CHECK(found->message().find("on lane 1, at stream offset") != std::string::npos);
          CHECK((!ending.received || ending.right));
          ++flips;
        }
      }
    }
  }
  CHECK(flips > 5000 / Every(5));
}

TEST_CASE("without checksums the same flip in a payload is received as if nothing were") {
  MessageLimits unchecked = kSmall;
  unchecked.checksums = false;
  for (const MessageMode& mode : AwkwardMessageModes()) {
    CAPTURE(mode.name);
    for (const Exchange& exchange : kExchanges) {
      if (exchange.bytes == 0 || exchange.room < exchange.bytes) continue;
      CAPTURE(exchange.what);
      // The payload of a small message follows its header. That of a large message follows an announcement and a
      // header.
      const std::uint64_t offset = exchange.bytes > 100 ? 128 : 64;
      const Ending ending = Run(mode, unchecked, exchange, {.from = 0, .to = 1, .offset = offset});
      CHECK(ending.fired);
      CHECK(!ending.failure_of_receiver);
      CHECK(ending.received);
      CHECK_FALSE(ending.right);
    }
  }
}

}  // namespace checksums_test
}  // namespace rondo
