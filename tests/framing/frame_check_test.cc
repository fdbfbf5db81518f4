// Checks that frames with checksums have exactly the bytes of docs/WIRE.md, and that every flipped bit is detected.
#include "collectives/framing/frame_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/crc32c.h"
#include "collectives/engine/frame.h"

namespace rondo {
namespace frame_check_test {

std::vector<std::byte> Payload(std::size_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (std::size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(i * 7 + 1);
  return payload;
}

// A frame as a sender writes it.
std::vector<std::byte> FrameOf(Bytes payload, std::uint64_t stream_offset = 0) {
  HeaderArray header;
  Encode(FrameHeader{.operation = {.sequence = 1, .count = 1000, .collective = Collective::kAllReduce},
                     .payload_bytes = static_cast<std::uint32_t>(payload.size()),
                     .transfer_bytes = payload.size(),
                     .stream_offset = stream_offset},
         header);
  SealHeader(header);
  std::vector<std::byte> frame(kFrameHeaderBytes + payload.size() + CheckedTailOf(payload.size()));
  const auto rest = std::copy_n(header.begin(), header.size(), frame.begin());
  if (payload.empty()) return frame;
  OutgoingTail tail;
  tail.Seal(payload.size(), Crc32c(payload, SumOfHeader(header)));
  const Bytes last = tail.Last(CheckedTailOf(payload.size()));
  std::copy(last.begin(), last.end(), std::copy(payload.begin(), payload.end(), rest));
  return frame;
}

// Whether a receiver that expects this payload accepts the frame. The tail arrives in two pieces; `cut` is the size of
// the first.
bool IsSound(const std::vector<std::byte>& frame, std::size_t payload, std::size_t cut = 0) {
  HeaderArray header;
  std::copy_n(frame.begin(), header.size(), header.begin());
  const Sums of_header = OpenHeader(header);
  if (!of_header.match()) return false;
  if (payload == 0) return true;
  const std::uint32_t sum = Crc32c(Bytes(frame).subspan(kFrameHeaderBytes, payload), of_header.found);
  const Bytes rest = Bytes(frame).subspan(kFrameHeaderBytes + payload);
  IncomingTail tail;
  tail.Begin();
  const std::size_t first = std::min(cut, rest.size());
  CHECK(tail.Take({rest.first(first / 2), rest.subspan(first / 2, first - first / 2)}, rest.size()) == first);
  CHECK(tail.Take({rest.subspan(first), {}}, rest.size() - first) == rest.size() - first);
  return tail.Verify(sum).match();
}

TEST_CASE("a frame with checksums is whole lines; one without payload is its header") {
  for (std::size_t payload = 0; payload < 200; ++payload) {
    CAPTURE(payload);
    const std::vector<std::byte> frame = FrameOf(Payload(payload));
    CHECK(frame.size() % kLineBytes == 0);
    CHECK(frame.size() == kFrameHeaderBytes + payload + CheckedTailOf(payload));
    CHECK(CheckedTailOf(payload) <= kMaxTailBytes);
    CHECK((payload == 0) == (frame.size() == kFrameHeaderBytes));
    CHECK(IsSound(frame, payload));
  }
}

TEST_CASE("the header's checksum is over the header with its field 0; the last one over all of the frame before it") {
  std::vector<std::byte> frame = FrameOf(Payload(100));
  const auto in_header = LoadLittle<std::uint32_t>(frame.data() + 4);
  const auto at_end = LoadLittle<std::uint32_t>(frame.data() + frame.size() - 4);
  std::fill_n(frame.begin() + 4, 4, std::byte{0});
  CHECK(in_header == Crc32c(Bytes(frame).first(kFrameHeaderBytes)));
  CHECK(at_end == Crc32c(Bytes(frame).first(frame.size() - 4)));
}

TEST_CASE("a header that was opened is one without checksum") {
  std::vector<std::byte> frame = FrameOf(Payload(8));
  HeaderArray header;
  std::copy_n(frame.begin(), header.size(), header.begin());
  FrameHeader decoded;
  CHECK(Decode(header, decoded) == "a checksum where none was agreed");
  CHECK(OpenHeader(header).match());
  CHECK(!Decode(header, decoded));
  CHECK(decoded.payload_bytes == 8);
}

TEST_CASE("no single bit flips unnoticed, whatever the length") {
  for (const std::size_t payload : {0, 1, 4, 59, 60, 61, 63, 64, 65, 128}) {
    CAPTURE(payload);
    const std::vector<std::byte> frame = FrameOf(Payload(payload));
    for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
      std::vector<std::byte> damaged = frame;
      damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      CAPTURE(bit);
      CHECK_FALSE(IsSound(damaged, payload));
    }
  }
}

TEST_CASE("another frame's payload is noticed, also where its checksum came along, and so is a payload of zeros") {
  const std::vector<std::byte> one = FrameOf(Payload(64)), other = FrameOf(Payload(64), 4096);
  std::vector<std::byte> mixed = one;
  std::copy_n(other.begin() + kFrameHeaderBytes, 128, mixed.begin() + kFrameHeaderBytes);
  CHECK_FALSE(IsSound(mixed, 64));
  std::vector<std::byte> zeroed = one;
  std::fill_n(zeroed.begin() + kFrameHeaderBytes, 128, std::byte{0});
  CHECK_FALSE(IsSound(zeroed, 64));
}

TEST_CASE("a tail comes in any pieces, and a place for it may be used again") {
  const std::vector<std::byte> frame = FrameOf(Payload(61));  // a payload of the maximum length
  REQUIRE(CheckedTailOf(61) == kMaxTailBytes);
  for (std::size_t cut = 0; cut <= kMaxTailBytes; ++cut) CHECK(IsSound(frame, 61, cut));
  OutgoingTail tail;
  tail.Seal(1, 0xFFFFFFFF);
  tail.Seal(61, 5);
  OutgoingTail fresh;
  fresh.Seal(61, 5);
  const Bytes used = tail.Last(kMaxTailBytes), unused = fresh.Last(kMaxTailBytes);
  CHECK(std::equal(used.begin(), used.end(), unused.begin()));
}

TEST_CASE("damage is reported with its place, and a peer without checksums is suspected") {
  const Error error = DamagedFrame(3, 1, 4096, "in its header", {.expected = 0x1A, .found = 0xFFFF0000});
  CHECK(error.code() == ErrorCode::kCorrupt);
  CHECK(error.culprit() == 3);
  CHECK(error.message() ==
        "a frame from rank 3 arrived damaged on lane 1, at stream offset 4096, in its header: checksum 0x0000001a "
        "expected, 0xffff0000 found");
  CHECK(DamagedFrame(3, 1, 0, "in its header", {.found = 1}).message().find("does that rank send checksums at all?") !=
        std::string::npos);
}

}  // namespace frame_check_test
}  // namespace rondo
