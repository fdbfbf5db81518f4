// FrameSender and FrameReceiver, without and with checksums, over one lane that accepts and returns bytes in pieces of
// any size. Other tests check the format of frames: frame_check_test.cc and the tests of headers.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "collectives/framing/frame_receiver.h"
#include "collectives/framing/frame_sender.h"

namespace rondo {
namespace framed_lane_test {

// A lane that returns written bytes to the reader. It accepts at most `room` bytes per call, and returns two views, the
// first of which ends at `seam`.
class LoopLane final : public Lane {
 public:
  std::size_t room = SIZE_MAX;
  std::size_t visible = SIZE_MAX;  // the maximum number of unread bytes that a reader can see
  std::size_t seam = 0;
  bool releases = true;
  std::vector<std::size_t> writes;
  std::vector<std::byte> stream;

  Rank peer() const override { return 3; }
  LaneState state() const override { return LaneState::kOpen; }
  const Error* failure() const override { return nullptr; }
  std::size_t Write(std::span<const Bytes> pieces) override {
    std::size_t taken = 0;
    for (const Bytes piece : pieces) {
      const std::size_t bytes = std::min(piece.size(), room - taken);
      stream.insert(stream.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(bytes));
      taken += bytes;
    }
    writes.push_back(taken);
    if (releases) released_ = stream.size();
    return taken;
  }
  std::uint64_t accepted() const override { return stream.size(); }
  std::uint64_t released() const override { return released_; }
  Arrived Peek(std::size_t) override {
    const Bytes all = Bytes(stream).subspan(consumed_);
    const Bytes shown = all.first(std::min(all.size(), visible));
    const std::size_t first = std::min(seam, shown.size());
    return {shown.first(first), shown.subspan(first)};
  }
  void Consume(std::size_t bytes) override { consumed_ += bytes; }
  std::size_t ReadInto(MutableBytes destination) override {
    const std::size_t bytes = std::min(destination.size(), Peek(0).size());
    std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(consumed_), bytes, destination.begin());
    consumed_ += bytes;
    return bytes;
  }
  bool Expect(std::uint64_t, MutableBytes) override { return false; }
  std::uint64_t consumed() const override { return consumed_; }
  void Revoke() override {}

  void ReleaseUpTo(std::uint64_t offset) { released_ = offset; }

 private:
  std::uint64_t consumed_ = 0;
  std::uint64_t released_ = 0;
};

constexpr std::uint32_t kLaneIndex = 7;

std::vector<std::byte> PayloadOf(std::size_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (std::size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(i * 11 + bytes);
  return payload;
}

struct TestHeader {
  std::uint64_t stream_offset = 0;
  std::uint64_t payload_offset = 0;
  std::uint32_t payload_bytes = 0;
};

// Makes the sender's next frame and begins to send it.
OutgoingFrame BeginFrame(FrameSender& sender, const std::vector<std::byte>& payload) {
  HeaderArray& header = sender.Header();
  header.fill(std::byte{0});
  frame_prefix::Encode(1, TestHeader{sender.lane().accepted(), 0, static_cast<std::uint32_t>(payload.size())},
                       header.data());
  const OutgoingFrame frame = sender.Make(payload.data(), payload.size());
  sender.Begin(frame, sender.lane().accepted());
  return frame;
}

void SendWhole(FrameSender& sender, OutgoingFrame frame) {
  while (!frame.all_sent()) {
    FramePieces<1> pieces;
    sender.Gather(frame, frame.payload_bytes, pieces);
    frame.sent += sender.lane().Write(pieces.all());
  }
}

// Returns the payload of the next frame, or the error.
Result<std::vector<std::byte>> ReceiveWhole(FrameReceiver& receiver, LoopLane& lane, std::size_t step) {
  // Makes more bytes visible, `step` at a time, until a header or tail is complete.
  lane.visible = step;
  HeaderArray bytes;
  while (true) {
    RONDO_ASSIGN(const bool found, receiver.PeekHeader(bytes));
    if (found) break;
    lane.visible += step;
  }
  CHECK(frame_prefix::FindFault(bytes.data()) == std::nullopt);
  TestHeader header;
  frame_prefix::Decode(bytes.data(), header);
  CHECK(header.stream_offset == lane.consumed());
  receiver.Begin(header.payload_bytes);
  lane.visible = step;
  std::vector<std::byte> payload(header.payload_bytes);
  while (receiver.payload_left() > 0) receiver.Take(std::span(payload).subspan(receiver.arrived()));
  while (true) {
    const FrameReceiver::Tail tail = receiver.TakeTail();
    if (tail == FrameReceiver::Tail::kDamaged) return Fail(receiver.DamagedPayload("in the test's frame"));
    if (tail == FrameReceiver::Tail::kWhole) break;
    CHECK(tail == FrameReceiver::Tail::kPart);
  }
  receiver.End();
  return payload;
}

TEST_CASE("frames arrive as they were sent, however the lane cuts them") {
  for (const bool checksums : {false, true}) {
    for (const std::size_t room : {1, 7, 64, 100, 4096}) {
      for (const std::size_t step : {1, 5, 64, 4096}) {
        CAPTURE(checksums);
        CAPTURE(room);
        CAPTURE(step);
        LoopLane lane;
        lane.room = room;
        lane.seam = step / 2;
        FrameSender sender(lane, checksums);
        FrameReceiver receiver(lane, kLaneIndex, checksums);
        for (const std::size_t bytes : {0, 1, 59, 60, 61, 64, 300, 0, 128}) {
          const std::vector<std::byte> payload = PayloadOf(bytes);
          SendWhole(sender, BeginFrame(sender, payload));
          CHECK(lane.accepted() % kLineBytes == 0);
          const auto received = ReceiveWhole(receiver, lane, step);
          REQUIRE(received);
          CHECK(*received == payload);
          CHECK(lane.consumed() == lane.accepted());
        }
      }
    }
  }
}

TEST_CASE("header, payload and tail are one call of the lane, and so are several frames") {
  for (const bool checksums : {false, true}) {
    LoopLane lane;
    FrameSender sender(lane, checksums);
    const std::vector<std::byte> first = PayloadOf(100), second = PayloadOf(4);
    const OutgoingFrame one = BeginFrame(sender, first);
    SendWhole(sender, one);
    CHECK(lane.writes == std::vector<std::size_t>{one.bytes()});

    FramePieces<2> pieces;
    const std::vector<const std::vector<std::byte>*> payloads{&first, &second};
    std::uint64_t bytes = 0;
    for (const auto* payload : payloads) {
      const OutgoingFrame frame = BeginFrame(sender, *payload);
      sender.Gather(frame, frame.payload_bytes, pieces);
      bytes += frame.bytes();
    }
    CHECK(pieces.asked() == bytes);
    CHECK(lane.Write(pieces.all()) == bytes);
  }
}

TEST_CASE("payload that is not final does not go, and the tail goes after all of it") {
  for (const bool checksums : {false, true}) {
    LoopLane lane;
    FrameSender sender(lane, checksums);
    FrameReceiver receiver(lane, kLaneIndex, checksums);
    std::vector<std::byte> payload(200);
    OutgoingFrame frame = BeginFrame(sender, payload);
    const std::vector<std::byte> final = PayloadOf(200);
    for (const std::size_t end : {50, 50, 120, 200}) {
      std::copy_n(final.begin(), end, payload.begin());
      FramePieces<1> pieces;
      sender.Gather(frame, end, pieces);
      if (!pieces.empty()) frame.sent += lane.Write(pieces.all());
      CHECK(frame.payload_sent() == end);
      CHECK(frame.all_sent() == (end == 200));
    }
    const auto received = ReceiveWhole(receiver, lane, 4096);
    REQUIRE(received);
    CHECK(*received == final);
  }
}

TEST_CASE("a header is used again when the lane has released it, with checksums also what follows the payload") {
  for (const bool checksums : {false, true}) {
    LoopLane lane;
    lane.releases = false;
    FrameSender sender(lane, checksums);
    const std::vector<std::byte> payload = PayloadOf(64);
    std::uint64_t first_frame = 0;
    for (std::size_t i = 0; i < FrameSender::kHeaders; ++i) {
      REQUIRE(sender.HasFreeHeader());
      const OutgoingFrame frame = BeginFrame(sender, payload);
      SendWhole(sender, frame);
      if (i == 0) first_frame = frame.bytes();
    }
    CHECK_FALSE(sender.HasFreeHeader());
    lane.ReleaseUpTo(kFrameHeaderBytes);
    CHECK(sender.HasFreeHeader() != checksums);
    lane.ReleaseUpTo(first_frame);
    CHECK(sender.HasFreeHeader());
    CHECK_FALSE(sender.HasFreeHeader(1));
  }
}

TEST_CASE("with checksums one flipped bit is found, and the error says where") {
  const std::vector<std::byte> payload = PayloadOf(100);
  std::size_t bytes = 0;
  for (std::size_t at = 0; at == 0 || at < bytes; ++at) {
    CAPTURE(at);
    LoopLane lane;
    FrameSender sender(lane, true);
    FrameReceiver receiver(lane, kLaneIndex, true);
    SendWhole(sender, BeginFrame(sender, PayloadOf(10)));
    const std::size_t begin = lane.stream.size();
    SendWhole(sender, BeginFrame(sender, payload));
    bytes = lane.stream.size() - begin;
    lane.stream[begin + at] ^= std::byte{4};
    REQUIRE(ReceiveWhole(receiver, lane, 4096));
    const auto received = ReceiveWhole(receiver, lane, 4096);
    REQUIRE_FALSE(received);
    CHECK(received.error().code() == ErrorCode::kCorrupt);
    CHECK(received.error().culprit() == 3);
    const std::string text = received.error().message();
    CAPTURE(text);
    CHECK(text.find("rank 3") != std::string::npos);
    CHECK(text.find("on lane 7, at stream offset " + std::to_string(begin) + ",") != std::string::npos);
    CHECK(text.find(at < kFrameHeaderBytes ? "in its header" : "in the test's frame") != std::string::npos);
  }
}

TEST_CASE("payload that is thrown away is verified like any other") {
  for (const bool damaged : {false, true}) {
    LoopLane lane;
    lane.seam = 30;
    FrameSender sender(lane, true);
    FrameReceiver receiver(lane, kLaneIndex, true);
    SendWhole(sender, BeginFrame(sender, PayloadOf(100)));
    if (damaged) lane.stream[kFrameHeaderBytes + 50] ^= std::byte{1};
    HeaderArray header;
    REQUIRE(receiver.PeekHeader(header).value());
    receiver.Begin(100);
    CHECK(receiver.Discard() == 100);
    CHECK(receiver.TakeTail() == (damaged ? FrameReceiver::Tail::kDamaged : FrameReceiver::Tail::kWhole));
    CHECK(lane.consumed() == lane.accepted());
  }
}

}  // namespace framed_lane_test
}  // namespace rondo
