// transport/tcp/control_frame: what a peer can send on a control connection.
#include <algorithm>

#include "tests/fuzz/harness.h"
#include "transport/tcp/control_frame.h"

namespace rondo::fuzz {
namespace {

using tcp::ControlFrame;

std::string Encode(const ControlFrame& frame) {
  return frame.lane_request ? tcp::EncodeLaneRequest(*frame.lane_request) : tcp::EncodeControl(frame.message);
}

struct Heard {
  std::vector<std::string> frames;  // written again
  std::string error;
  friend bool operator==(const Heard&, const Heard&) = default;
};

Heard Feed(const std::vector<std::string_view>& pieces) {
  tcp::ControlReader reader;
  std::vector<ControlFrame> frames;
  Heard heard;
  for (const std::string_view piece : pieces) {
    const Status fed = reader.Feed(AsBytes(piece), frames);
    if (fed) continue;
    CheckError(fed);
    heard.error = fed.error().ToString();
    break;
  }
  for (const ControlFrame& frame : frames) heard.frames.push_back(Encode(frame));
  return heard;
}

// The first 8 bytes of a frame have three that the format reserves: what is written has zeros there.
std::string WithoutReserved(std::string_view stream, const std::vector<std::string>& frames) {
  std::string canonical(stream);
  std::size_t at = 0;
  for (const std::string& frame : frames) {
    std::fill_n(canonical.begin() + static_cast<std::ptrdiff_t>(at) + 1, 3, '\0');
    at += frame.size();
  }
  return canonical;
}

}  // namespace

Corpus HarnessCorpus() {
  const std::string goodbye = tcp::EncodeControl({ControlKind::kGoodbye, std::string(24, '\0')});
  const std::string greeting = tcp::EncodeControl({ControlKind::kHeartbeat, ""});
  const std::string abort = tcp::EncodeControl({ControlKind::kAbort, "why"});
  return {
      .seeds = {greeting, goodbye, abort, tcp::EncodeLaneRequest(7), greeting + tcp::EncodeLaneRequest(1) + goodbye},
      .words = {std::string("\x10\x00\x00\x00\x04\x00\x00\x00", 8), std::string("\x00\x10\x00\x00", 4)}};
}

void CheckInput(std::string_view input) {
  const Allocations allocations;
  const Heard whole = Feed(Pieces(input, Cut::kWhole));
  for (const Cut cut : {Cut::kBytes, Cut::kDrawn}) {
    const Heard again = Feed(Pieces(input, cut));
    RONDO_HOLDS(again == whole, "{} frames and '{}', then {} and '{}'", whole.frames.size(), whole.error,
                again.frames.size(), again.error);
  }
  std::string written;
  for (const std::string& frame : whole.frames) written += frame;
  RONDO_HOLDS(written.size() <= input.size());
  RONDO_HOLDS(WithoutReserved(input, whole.frames).starts_with(written));
  // Whatever is left over is the beginning of one frame.
  if (whole.error.empty()) {
    RONDO_HOLDS(input.size() - written.size() < tcp::kControlHeaderBytes + kMaxControlBodyBytes);
  }
  allocations.CheckLargest(4096 + 64 * input.size());
}

}  // namespace rondo::fuzz
