// The frames on a control connection after the handshake: the communicator's control messages, and the transport's own
// request for a lane. Layout: docs/WIRE.md, "Control connections". Sans-I/O.
//
// Every frame has a checksum, even if lanes have none: control frames are few and short, so checksums cost nothing, and
// these frames report errors of the data.
//
// Thread rule: plain values; one thread at a time uses a reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/transport.h"

namespace rondo::tcp {

inline constexpr std::size_t kControlHeaderBytes = 12;

// A message for the observer, unless `lane_request` is set: the index of a lane that the lower rank asks the higher
// rank to make.
struct ControlFrame {
  ControlMessage message;
  std::optional<std::uint32_t> lane_request;
};

// REQUIRES: message.body.size() <= kMaxControlBodyBytes.
std::string EncodeControl(const ControlMessage& message);
std::string EncodeLaneRequest(std::uint32_t index);

// Cuts the stream into frames, no matter in which pieces it arrives. Holds at most one frame's bytes.
class ControlReader {
 public:
  // Appends the frames that `bytes` completes. kProtocol: an unknown kind or an impossible length; kCorrupt: a checksum
  // that does not match. After an error no more bytes may be fed.
  Status Feed(Bytes bytes, std::vector<ControlFrame>& frames);

 private:
  std::vector<std::byte> partial_;
};

}  // namespace rondo::tcp
