// Fuzzes transport/tcp/control_frame with any bytes that a peer can send on a control connection.
#include <algorithm>

#include "base/crc32c.h"
#include "tests/fuzz/harness.h"
#include "transport/tcp/control_frame.h"

namespace rondo::fuzz::tcp_control_frame_fuzz {
using tcp::ControlFrame;

std::string Encode(const ControlFrame& frame) {
  return frame.lane_request ? tcp::EncodeLaneRequest(*frame.lane_request) : tcp::EncodeControl(frame.message);
}

struct Parsed {
  std::vector<std::string> frames;  // re-encoded frames
  std::string error;
  friend bool operator==(const Parsed&, const Parsed&) = default;
};

Parsed Feed(const std::vector<std::string_view>& pieces) {
  tcp::ControlReader reader;
  std::vector<ControlFrame> frames;
  Parsed parsed;
  for (const std::string_view piece : pieces) {
    const Status fed = reader.Feed(AsBytes(piece), frames);
    if (fed) continue;
    CheckError(fed);
    parsed.error = fed.error().ToString();
    break;
  }
  for (const ControlFrame& frame : frames) parsed.frames.push_back(Encode(frame));
  return parsed;
}

constexpr std::size_t kBodyBytesAt = 4, kCrcAt = 8;

std::size_t FrameBytesAt(std::string_view stream, std::size_t at) {
  return tcp::kControlHeaderBytes + LoadLittle<std::uint32_t>(AsBytes(stream).data() + at + kBodyBytesAt);
}

// Sets the three reserved bytes of each frame to zero and computes the matching checksums. Random inputs never pass a
// checksum, so streams with matching checksums are tested as well.
std::string Sealed(std::string_view stream) {
  std::string sealed(stream);
  for (std::size_t at = 0; at + tcp::kControlHeaderBytes <= sealed.size();) {
    const std::size_t bytes = FrameBytesAt(sealed, at);
    if (bytes > sealed.size() - at) break;
    std::fill_n(sealed.begin() + static_cast<std::ptrdiff_t>(at) + 1, 3, '\0');
    const Bytes frame = AsBytes(sealed).subspan(at, bytes);
    const std::uint32_t sum = Crc32c(frame.subspan(tcp::kControlHeaderBytes), Crc32c(frame.first(kCrcAt)));
    StoreLittle(reinterpret_cast<std::byte*>(sealed.data() + at + kCrcAt), sum);
    at += bytes;
  }
  return sealed;
}

void CheckStream(std::string_view stream) {
  const Parsed whole = Feed(Pieces(stream, Cut::kWhole));
  for (const Cut cut : {Cut::kBytes, Cut::kDrawn}) {
    const Parsed again = Feed(Pieces(stream, cut));
    RONDO_HOLDS(again == whole, "{} frames and '{}', then {} and '{}'", whole.frames.size(), whole.error,
                again.frames.size(), again.error);
  }
  std::string written;
  for (const std::string& frame : whole.frames) written += frame;
  RONDO_HOLDS(written.size() <= stream.size());
  RONDO_HOLDS(Sealed(stream).starts_with(written));
  // The bytes after the last complete frame are the beginning of one more frame.
  if (whole.error.empty()) {
    RONDO_HOLDS(stream.size() - written.size() < tcp::kControlHeaderBytes + kMaxControlBodyBytes);
  }
}

Corpus HarnessCorpus() {
  const std::string goodbye = tcp::EncodeControl({ControlKind::kGoodbye, std::string(24, '\0')});
  const std::string heartbeat = tcp::EncodeControl({ControlKind::kHeartbeat, ""});
  const std::string abort = tcp::EncodeControl({ControlKind::kAbort, "why"});
  return {
      .seeds = {heartbeat, goodbye, abort, tcp::EncodeLaneRequest(7), heartbeat + tcp::EncodeLaneRequest(1) + goodbye},
      .words = {std::string("\x10\x00\x00\x00\x04\x00\x00\x00", 8), std::string("\x00\x10\x00\x00", 4)}};
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  CheckStream(input);
  const std::string sealed = Sealed(input);
  if (sealed != input) CheckStream(sealed);
  allocations.CheckLargest(4096 + 64 * input.size());
}

}  // namespace rondo::fuzz::tcp_control_frame_fuzz
