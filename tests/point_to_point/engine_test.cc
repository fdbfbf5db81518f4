// Sends and receives as their contract specifies (collectives/point_to_point), over lanes that make use of every
// freedom in their contract. Limits are small, so that credit and announcements run out.
#include <doctest/doctest.h>

#include <map>

#include "tests/point_to_point/world.h"

namespace rondo {
namespace engine_test {

constexpr MessageLimits kSmall{
    .eager_message_bytes = 100, .eager_credit_bytes = 512, .max_announced_messages = 3, .body_frame_bytes = 128};

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a message of any length meets its receive, whichever comes first, in every awkward mode") {
  for (const MessageMode& mode : AwkwardMessageModes()) {
    CAPTURE(mode.name);
    for (const std::size_t bytes : {0, 1, 63, 64, 65, 100, 101, 128, 500, 5000}) {
      for (const bool receive_first : {true, false}) {
        CAPTURE(bytes);
        CAPTURE(receive_first);
        MessageWorld world({.network = mode.network, .limits = kSmall});
        TestOperation* got = receive_first ? &world.Recv(1, 0, 7, bytes + 9) : nullptr;
        TestOperation& sent = world.Send(0, 1, 7, Payload(0, 7, 1, bytes));
        if (!receive_first) world.Settle();
        if (!receive_first) got = &world.Recv(1, 0, 7, bytes + 9);
        world.Finish();
        CHECK(sent.good());
        REQUIRE(got->good());
        CHECK(got->operation.message == Message{0, 7, DataType::kUint8, bytes});
        CHECK(got->text() == Payload(0, 7, 1, bytes));
        CHECK(got->rest_untouched());
      }
    }
  }
}

TEST_CASE("both ways at once, more than all credits, in every awkward mode") {
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
      }
  }
}

TEST_CASE("memory of a finished send may be overwritten at once, however late the lane releases") {
  for (const MessageMode& mode : AwkwardMessageModes()) {
    CAPTURE(mode.name);
    MessageWorld world({.network = mode.network, .limits = kSmall});
    for (const std::size_t bytes : {90, 3000}) {
      TestOperation& sent = world.Send(0, 1, 1, Payload(0, 1, 1, bytes));
      TestOperation* got = nullptr;
      // A large message is sent only after its receive is posted.
      if (bytes > 100) got = &world.Recv(1, 0, 1, bytes);
      world.Until("sent", [&] { return sent.final(); });
      sent.Scribble();
      if (got == nullptr) got = &world.Recv(1, 0, 1, bytes);
      world.Finish();
      CHECK(got->text() == Payload(0, 1, 1, bytes));
    }
  }
}

TEST_CASE("a small message goes out without its receive, a large one waits to be asked for") {
  MessageWorld world({.limits = kSmall});
  TestOperation& small = world.Send(0, 1, 1, "small");
  TestOperation& large = world.Send(0, 1, 2, std::string(1000, 'x'));
  world.Settle();
  CHECK(small.good());
  CHECK_FALSE(large.final());
  CHECK(large.operation.stage == MessageStage::kAnnounced);
  CHECK(world.engine(1).held_messages() == 2);
  TestOperation& got = world.Recv(1, 0, 2, 1000);
  world.Until("received", [&] { return got.final(); });
  CHECK(got.text() == std::string(1000, 'x'));
  CHECK(world.engine(1).held_messages() == 1);
}

TEST_CASE("what was just issued goes out before its lane is looked at, but a rank that only sends still receives") {
  MessageWorld world({.ranks = 2});
  world.Send(1, 0, 7, "the path is made");
  world.Recv(0, 1, 7, 100);
  world.Finish();
  world.Send(1, 0, 8, "early");
  REQUIRE(world.engine(1).Poll());
  int polls = 0;
  while (world.engine(0).held_messages() == 0) {
    REQUIRE(++polls < 20);
    const TestOperation& sent = world.Send(0, 1, 9, "again");
    REQUIRE(world.engine(0).Poll());
    CHECK(sent.final());
  }
  CHECK(polls > 1);
}

TEST_CASE("a glance finds a message that has come, and nothing else") {
  MessageWorld world({.ranks = 2});
  world.Send(1, 0, 7, "the path is made");
  world.Recv(0, 1, 7, 100);
  world.Finish();
  CHECK_FALSE(world.engine(0).Glance());
  world.Send(1, 0, 8, "now");
  REQUIRE(world.engine(1).Poll());
  CHECK(world.engine(0).Glance());
  REQUIRE(world.engine(0).Poll());
  CHECK_FALSE(world.engine(0).Glance());
}

TEST_CASE("what a peer holds for a sender is bounded by credit and announcements; the rest waits at the sender") {
  MessageWorld world({.limits = kSmall});
  std::vector<TestOperation*> sends;
  for (int i = 0; i < 50; ++i) sends.push_back(&world.Send(0, 1, 5, Payload(0, 5, i, 60)));
  world.Settle();
  // 512 bytes of credit allow four messages of 64 + 64 bytes; three more may be announced.
  CHECK(world.engine(1).held_messages() == 7);
  CHECK(std::count_if(sends.begin(), sends.end(), [](const TestOperation* one) { return one->final(); }) == 4);
  CHECK(sends[6]->operation.stage == MessageStage::kAnnounced);
  CHECK(sends[7]->operation.stage == MessageStage::kQueued);
  // The lane is still read: a message with another tag in the other direction is not delayed.
  world.Send(1, 0, 9, "hello");
  TestOperation& other = world.Recv(0, 1, 9, 5);
  world.Until("the other way", [&] { return other.final(); });
  std::vector<TestOperation*> receives;
  for (int i = 0; i < 50; ++i) receives.push_back(&world.Recv(1, 0, 5, 60));
  world.Finish();
  for (int i = 0; i < 50; ++i) CHECK(receives[static_cast<std::size_t>(i)]->text() == Payload(0, 5, i, 60));
}

TEST_CASE("credit returns, so that a one-way stream of small messages stays eager for ever") {
  MessageWorld world({.limits = kSmall});
  for (int i = 0; i < 200; ++i) {
    TestOperation& got = world.Recv(1, 0, 0, 60);
    TestOperation& sent = world.Send(0, 1, 0, Payload(0, 0, i, 60));
    CHECK(sent.operation.stage == MessageStage::kQueued);
    world.Until("received", [&] { return got.final(); });
    world.Settle();
    CHECK(sent.good());
    CHECK(sent.operation.id == static_cast<std::uint64_t>(i + 1));
  }
  // This message has no posted receive, so its send ends only if the credit has returned.
  TestOperation& last = world.Send(0, 1, 1, Payload(0, 1, 0, 60));
  world.Settle();
  CHECK(last.good());
}

TEST_CASE("messages of one tag keep their order though small ones overtake large bodies") {
  MessageWorld world({.network = {.ring_bytes = 256}, .limits = kSmall});
  world.Send(0, 1, 1, Payload(0, 1, 0, 4000));
  world.Send(0, 1, 1, Payload(0, 1, 1, 10));
  world.Send(0, 1, 2, Payload(0, 2, 0, 10));
  TestOperation& first = world.Recv(1, 0, 1, 4000);
  TestOperation& second = world.Recv(1, 0, 1, 4000);
  TestOperation& other = world.Recv(1, 0, 2, 4000);
  world.Until("the other tag", [&] { return other.final(); });
  CHECK_FALSE(first.final());
  world.Finish();
  CHECK(first.text() == Payload(0, 1, 0, 4000));
  CHECK(second.text() == Payload(0, 1, 1, 10));
}

TEST_CASE("a receive takes any rank and any tag, and says which ones it took") {
  MessageWorld world({.ranks = 3, .limits = kSmall});
  TestOperation& any = world.Recv(0, kAnyRank, kAnyTag, 1000);
  TestOperation& any_from_2 = world.Recv(0, 2, kAnyTag, 1000);
  TestOperation& any_with_5 = world.Recv(0, kAnyRank, 5, 1000);
  world.Send(1, 0, 3, "first");
  world.Until("first", [&] { return any.final(); });
  world.Send(1, 0, 5, Payload(1, 5, 0, 300));
  world.Send(2, 0, 8, Payload(2, 8, 0, 300));
  world.Finish();
  CHECK(any.operation.message == Message{1, 3, DataType::kUint8, 5});
  CHECK(any_with_5.operation.message == Message{1, 5, DataType::kUint8, 300});
  CHECK(any_from_2.operation.message == Message{2, 8, DataType::kUint8, 300});
  CHECK(any_from_2.text() == Payload(2, 8, 0, 300));
}

TEST_CASE("a rank that floods does not keep others from being received") {
  MessageWorld world({.ranks = 4});
  for (int i = 0; i < 40; ++i) world.Send(1, 0, 0, "flood");
  world.Settle();
  world.Send(2, 0, 0, "two");
  world.Send(3, 0, 0, "three");
  world.Settle();
  std::map<Rank, int> counts;
  for (int i = 0; i < 3; ++i) {
    TestOperation& got = world.Recv(0, kAnyRank, kAnyTag, 10);
    world.Until("got", [&] { return got.final(); });
    ++counts[got.operation.message.source];
  }
  CHECK(counts == std::map<Rank, int>{{1, 1}, {2, 1}, {3, 1}});
}

TEST_CASE("a rank sends to itself under the same rules") {
  MessageWorld world({.ranks = 1, .limits = kSmall});
  TestOperation& small = world.Send(0, 0, 1, "small");
  CHECK(small.good());
  TestOperation& large = world.Send(0, 0, 1, std::string(2000, 'y'));
  CHECK_FALSE(large.final());
  TestOperation& first = world.Recv(0, kAnyRank, 1, 2000);
  CHECK(first.text() == "small");
  TestOperation& second = world.Recv(0, 0, kAnyTag, 2000);
  CHECK(second.text() == std::string(2000, 'y'));
  CHECK(large.good());
  TestOperation& waiting = world.Recv(0, 0, 4, 10);
  TestOperation& empty = world.Send(0, 0, 4, "");
  CHECK(empty.good());
  CHECK(waiting.good());
  CHECK(waiting.received() == 0);
  // Credit for messages of a rank to itself returns as well.
  for (int i = 0; i < 50; ++i) {
    CHECK(world.Send(0, 0, 2, std::string(90, 'z')).good());
    CHECK(world.Recv(0, 0, 2, 90).good());
  }
}

TEST_CASE("a message longer than its receive fails that receive alone, with both lengths") {
  for (const MessageMode& mode : AwkwardMessageModes()) {
    CAPTURE(mode.name);
    for (const bool receive_first : {true, false}) {
      for (const std::size_t bytes : {80, 4000}) {
        CAPTURE(bytes);
        MessageWorld world({.network = mode.network, .limits = kSmall});
        TestOperation* got = receive_first ? &world.Recv(1, 0, 3, 44, DataType::kInt32) : nullptr;
        TestOperation& sent = world.Send(0, 1, 3, Payload(0, 3, 0, bytes), DataType::kInt32);
        TestOperation& next = world.Send(0, 1, 3, Payload(0, 3, 1, 44), DataType::kInt32);
        if (!receive_first) world.Settle();
        if (!receive_first) got = &world.Recv(1, 0, 3, 44, DataType::kInt32);
        TestOperation& after = world.Recv(1, 0, 3, 44, DataType::kInt32);
        world.Finish();
        CAPTURE(got->error());
        CHECK(Has(got->error(), "mismatch: the message from rank 0 with tag 3 is longer than its receive"));
        CHECK(Has(got->error(), "int32 x " + std::to_string(bytes / 4) + ", room for int32 x 11"));
        CHECK(got->walls_stand());
        // The small message had already been sent. The large one had not, so its sender gets the error.
        CHECK(sent.good() == (bytes == 80));
        if (bytes != 80) CHECK(Has(sent.error(), "mismatch: the receive on rank 1 (int32 x 11) does not fit the send"));
        CHECK(next.good());
        CHECK(after.text() == Payload(0, 3, 1, 44));
        CHECK_FALSE(world.failure(0));
        CHECK_FALSE(world.failure(1));
      }
    }
  }
}

TEST_CASE("a message of another type fails its receive, with both types") {
  for (const std::size_t bytes : {80, 4000}) {
    MessageWorld world({.limits = kSmall});
    TestOperation& got = world.Recv(1, 0, 3, 8000, DataType::kFloat32);
    TestOperation& sent = world.Send(0, 1, 3, std::string(bytes, 'a'), DataType::kInt32);
    world.Finish();
    CHECK(Has(got.error(), "is of another type than its receive: int32 x"));
    CHECK(Has(got.error(), "not float32 x 2000"));
    CHECK(sent.good() == (bytes == 80));
  }
}

TEST_CASE("a receive posted while its message is coming gets it, or fails if it does not fit") {
  for (const std::size_t room : {100, 50}) {
    MessageWorld world({.network = {.ring_bytes = 64}, .limits = kSmall});
    TestOperation& sent = world.Send(0, 1, 1, Payload(0, 1, 0, 100));
    world.Until("some of it has come", [&] { return world.engine(1).held_messages() == 1; });
    CHECK_FALSE(sent.final());
    TestOperation& got = world.Recv(1, 0, 1, room);
    TestOperation& next = world.Recv(1, 0, 1, 100);
    world.Send(0, 1, 1, "next");
    world.Finish();
    CHECK(got.good() == (room == 100));
    if (room == 100) CHECK(got.text() == Payload(0, 1, 0, 100));
    CHECK(next.text() == "next");
    CHECK(world.engine(1).held_messages() == 0);
  }
}

TEST_CASE("a late receive is taken back, says what came instead, and leaves everything usable") {
  MessageWorld world({.limits = kSmall});
  TestOperation& got = world.Recv(1, 0, 7, 100);
  world.Send(0, 1, 8, "another tag");
  world.Settle();
  CHECK_FALSE(world.engine(1).Expire(TimePoint{} + std::chrono::seconds(9)));
  CHECK_FALSE(got.final());
  CHECK_FALSE(world.engine(1).Expire(TimePoint{} + std::chrono::seconds(10)));
  CAPTURE(got.error());
  CHECK(Has(got.error(), "timeout: receive of up to uint8 x 100 from rank 0 with tag 7 did not end within 10.000 s"));
  CHECK(Has(got.error(), "none has arrived from rank 0"));
  CHECK(Has(got.error(), "1 with another tag waits (the first: tag 8 from rank 0)"));
  TestOperation& again = world.Recv(1, 0, 7, 100);
  world.Send(0, 1, 7, "late");
  world.Until("late", [&] { return again.final(); });
  CHECK(again.text() == "late");
}

TEST_CASE("a late send that no rank asked for is withdrawn; a receive that had matched it waits for another") {
  for (const bool crossing : {false, true}) {
    CAPTURE(crossing);
    MessageWorld world({.limits = kSmall});
    TestOperation& sent = world.Send(0, 1, 7, std::string(1000, 'x'));
    world.Settle();
    TestOperation* got = nullptr;
    if (crossing) {
      got = &world.Recv(1, kAnyRank, 7, 2000);
      CHECK(got->operation.stage == MessageStage::kMatched);
      world.Poll(1);  // rank 1's permission to send the message is in flight
    }
    CHECK_FALSE(world.engine(0).Expire(TimePoint{} + std::chrono::seconds(11)));
    CAPTURE(sent.error());
    CHECK(Has(sent.error(), "timeout: send of uint8 x 1000 to rank 1 with tag 7 did not end within 10.000 s"));
    CHECK(Has(sent.error(), "rank 1 has posted no receive for it"));
    world.Settle();
    CHECK(world.engine(1).held_messages() == 0);
    if (got == nullptr) got = &world.Recv(1, kAnyRank, 7, 2000);
    world.Settle();
    CHECK_FALSE(got->final());
    world.Send(0, 1, 7, std::string(1500, 'y'));
    world.Finish();
    CHECK(got->text() == std::string(1500, 'y'));
  }
}

TEST_CASE("a late message without bytes fails alone, though its frame is on its way, and may still come") {
  MessageWorld world({.network = {.ring_bytes = 256}, .limits = kSmall});
  TestOperation& first = world.Send(0, 1, 7, "");
  world.Until("it is on its way", [&] {
    world.Poll(0);
    return first.operation.stage == MessageStage::kReleasing || first.final();
  });
  CHECK_FALSE(world.engine(0).Expire(TimePoint{} + std::chrono::seconds(11)));
  if (!first.good()) CHECK(Has(first.error(), "timeout: send of uint8 x 0 to rank 1 with tag 7 did not end within"));
  TestOperation& got = world.Recv(1, 0, 7, 100);
  TestOperation& next = world.Recv(1, 0, 8, 100);
  world.Send(0, 1, 8, "next");
  world.Until("both have come", [&] { return got.final() && next.final(); });
  CHECK(got.text().empty());
  CHECK(next.text() == "next");
}

TEST_CASE("a transfer that is late in its midst cannot be taken back") {
  MessageWorld world({.network = {.ring_bytes = 256}, .limits = kSmall});
  TestOperation& got = world.Recv(1, 0, 7, 5000);
  world.Send(0, 1, 7, std::string(5000, 'x'));
  world.Until("some has come", [&] { return got.operation.done > 0; });
  const auto fatal = world.engine(1).Expire(TimePoint{} + std::chrono::seconds(11));
  REQUIRE(fatal);
  CHECK(fatal->code() == ErrorCode::kTimeout);
  CHECK(fatal->culprit() == 0);
  CHECK(Has(fatal->message(), "of 5000 bytes of the message with tag 7"));
}

TEST_CASE("a rank that ends refuses messages that no rank will receive, and its peers' receives from it end") {
  MessageWorld world({.ranks = 3, .limits = kSmall});
  TestOperation& refused = world.Send(0, 1, 1, std::string(1000, 'x'));
  TestOperation& hopeless = world.Recv(0, 1, 2, 10);
  TestOperation& open = world.Recv(0, kAnyRank, 3, 10);
  world.Settle();
  TestOperation& last = world.Send(1, 0, 9, "last bytes");
  world.engine(1).BeginEnd();
  world.Until("failed", [&] { return refused.final() && hopeless.final(); });
  CHECK(Has(refused.error(), "closed: rank 1 closed without posting a receive for the send of uint8 x 1000 to rank 1"));
  CHECK(Has(hopeless.error(), "closed: rank 1 closed before the receive of up to uint8 x 10 from rank 1 with tag 2"));
  CHECK(last.good());
  TestOperation& received = world.Recv(0, 1, 9, 10);
  CHECK(received.text() == "last bytes");
  CHECK_FALSE(open.final());
  TestOperation& late = world.Send(0, 1, 1, std::string(1000, 'x'));
  world.Until("refused too", [&] { return late.final(); });
  CHECK(Has(late.error(), "closed: rank 1"));
  world.Send(2, 0, 4, "");  // this gives rank 0 a lane to rank 2
  world.engine(2).BeginEnd();
  world.Until("no rank is left", [&] { return open.final(); });
  CHECK(Has(open.error(), "closed: every other rank closed"));
}

TEST_CASE("a rank that gives up its receives ends them at once, and only those that nothing has come for") {
  MessageWorld world({.limits = kSmall});
  TestOperation& given_up = world.Recv(1, 0, 1, 10);
  TestOperation& from_any = world.Recv(1, kAnyRank, 2, 10);
  TestOperation& taken = world.Recv(1, 0, 3, 1000);
  world.Send(0, 1, 3, std::string(1000, 'x'));
  world.Until("it is matched", [&] { return taken.operation.stage != MessageStage::kPosted; });
  world.engine(1).BeginEnd(PostedReceives::kGivenUp);
  CHECK(Has(given_up.error(), "closed: rank 1 closed before the receive of up to uint8 x 10 from rank 0 with tag 1"));
  CHECK(Has(from_any.error(), "closed: rank 1 closed before the receive"));
  world.Until("the rest has come", [&] { return taken.final(); });
  CHECK(taken.text() == std::string(1000, 'x'));
}

TEST_CASE("nothing is written to a rank that has said goodbye before all that it sent has been read") {
  MessageWorld world({.limits = kSmall});
  std::vector<TestOperation*> receives;
  for (int i = 0; i < 4; ++i) world.Send(0, 1, 5, Payload(0, 5, i, 60));  // the receiver owes credit for these messages
  world.Settle();
  const Lane& lane = **world.endpoint(1).Open(0, kMessageLaneIndex);
  const std::uint64_t written = lane.accepted();
  world.engine(1).Depart(0);
  for (int i = 0; i < 4; ++i) receives.push_back(&world.Recv(1, 0, 5, 60));
  TestOperation& kept_back = world.Send(1, 0, 6, "later");
  world.Settle();
  for (int i = 0; i < 4; ++i) CHECK(receives[static_cast<std::size_t>(i)]->text() == Payload(0, 5, i, 60));
  CHECK_FALSE(world.engine(1).HasOutput());
  CHECK(lane.accepted() == written);
  CHECK_FALSE(kept_back.final());
  world.engine(0).BeginEnd();
  world.Until("the end has come and what was kept back has gone", [&] { return kept_back.final(); });
  CHECK(kept_back.good());
}

TEST_CASE("what a rank that has said goodbye sent is received though its lane broke when something was sent to it") {
  MessageWorld world({.network = {.ring_bytes = 1024}, .limits = {.eager_credit_bytes = 2048}});
  TestOperation& sent = world.Send(0, 1, 5, Payload(0, 5, 0, 300));
  TestOperation& cut = world.Send(0, 1, 5, Payload(0, 5, 1, 900));
  REQUIRE(world.engine(0).Poll());  // sends as much as fits into the ring: the first message, and a part of the second
  REQUIRE(sent.good());
  REQUIRE_FALSE(cut.final());
  const auto lane = world.endpoint(1).Open(0, kMessageLaneIndex);
  world.network().Kill(0);
  world.endpoint(1).Poll(TimePoint{});
  const std::byte byte{};
  const Bytes pieces[] = {Bytes(&byte, 1)};
  REQUIRE((*lane)->Write(pieces) == 0);
  REQUIRE((*lane)->state() == LaneState::kFailed);
  world.engine(1).Depart(0);
  TestOperation& first = world.Recv(1, 0, 5, 300);
  TestOperation& second = world.Recv(1, 0, 5, 900);
  for (int i = 0; i < 10 && !second.final(); ++i) REQUIRE(world.engine(1).EndDeparted());
  CHECK(first.text() == Payload(0, 5, 0, 300));
  CHECK(Has(second.error(), "closed: rank 0 closed before the receive of up to uint8 x 900 from rank 0 with tag 5"));
}

TEST_CASE("a message of which a part has come from a rank that is gone is not held for a receive") {
  MessageWorld world({.network = {.ring_bytes = 1024}, .limits = {.eager_credit_bytes = 2048}});
  world.engine(1).AcceptLane(0);
  world.Send(0, 1, 5, Payload(0, 5, 0, 1500));
  REQUIRE(world.engine(0).Poll());
  world.Poll(1);
  REQUIRE(world.engine(1).held_messages() == 1);
  world.network().Kill(0);
  world.endpoint(1).Poll(TimePoint{});
  world.engine(1).Depart(0);
  for (int i = 0; i < 10 && world.engine(1).held_messages() > 0; ++i) REQUIRE(world.engine(1).EndDeparted());
  CHECK(world.engine(1).held_messages() == 0);
  const TestOperation& late = world.Recv(1, 0, 5, 1500);
  REQUIRE(world.engine(1).EndDeparted());
  CHECK(Has(late.error(), "closed: rank 0 closed"));
}

TEST_CASE("bytes that break the protocol are named, and nothing is held for them") {
  const auto breach = [](const MessageHeader& bad) {
    MessageWorld world({.limits = kSmall});
    auto lane = world.endpoint(0).Open(1, kMessageLaneIndex);
    REQUIRE(lane);
    std::array<std::byte, kFrameHeaderBytes> bytes;
    Encode(bad, bytes);
    const Bytes pieces[] = {Bytes(bytes)};
    REQUIRE((*lane)->Write(pieces) == bytes.size());
    world.engine(1).AcceptLane(0);
    for (int i = 0; i < 10; ++i) world.Poll(1);
    REQUIRE(world.failure(1));
    CHECK(world.failure(1)->code() == ErrorCode::kProtocol);
    CHECK(world.failure(1)->culprit() == 0);
    CHECK(world.engine(1).held_messages() == 0);
    return world.failure(1)->message();
  };
  using Type = MessageFrameType;
  CHECK(Has(breach({.type = Type::kMessage, .id = 2}), "message number 2, expected 1"));
  CHECK(Has(breach({.type = Type::kMessage, .payload_bytes = 600, .id = 1, .message_bytes = 600}),
            "beyond its credit (eager_credit_bytes is 512 here)"));
  CHECK(Has(breach({.type = Type::kBody, .id = 1}), "the body of message 1, for which this rank has not asked"));
  CHECK(Has(breach({.type = Type::kClear, .id = 1}), "an answer to message 1, but only 0 messages were sent"));
  CHECK(Has(breach({.type = Type::kCredit, .returned_bytes = 64}), "a return of 64 bytes of credit"));
  CHECK(Has(breach({.type = Type::kCredit, .stream_offset = 64}), "names stream offset 64"));
  CHECK(Has(breach({.type = Type::kCredit, .payload_bytes = 1}), "payload where none belongs"));
}

}  // namespace engine_test
}  // namespace rondo
