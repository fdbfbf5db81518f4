// The frames on a control connection after the handshake: the communicator's control messages, and the transport's own
// request for a lane. Layout: docs/WIRE.md, "Control connections". Sans-I/O.
//
// Every frame has a checksum, even if lanes have none, because these frames report errors of the data. The checksums
// cost almost nothing, because control frames are few and short.
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

// A message for the observer. If `lane_request` is set, it is a request instead: the lower rank asks the higher rank to
// make the lane with that index.
struct ControlFrame {
  ControlMessage message;
  std::optional<std::uint32_t> lane_request;
};

// REQUIRES: message.body.size() <= kMaxControlBodyBytes.
std::string EncodeControl(const ControlMessage& message);
std::string EncodeLaneRequest(std::uint32_t index);

// Cuts a stream of bytes into frames, no matter in which pieces the stream arrives. Holds at most the bytes of one
// frame.
class ControlReader {
 public:
  // Appends the frames that `bytes` completes. kProtocol: an unknown kind or an impossible length. kCorrupt: a checksum
  // does not match. After an error, Feed must not be called again.
  Status Feed(Bytes bytes, std::vector<ControlFrame>& frames);

 private:
  std::vector<std::byte> partial_;
};

}  // namespace rondo::tcp
