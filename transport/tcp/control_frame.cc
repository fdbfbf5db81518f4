#include "transport/tcp/control_frame.h"

#include <algorithm>

#include "base/check.h"
#include "base/crc32c.h"

namespace rondo::tcp {
namespace {

constexpr std::uint8_t kLaneRequestKind = 16;
constexpr std::size_t kBodyBytesAt = 4, kCrcAt = 8;

std::uint32_t SumOf(Bytes header, Bytes body) { return Crc32c(body, Crc32c(header.first(kCrcAt))); }

std::string EncodeFrame(std::uint8_t kind, Bytes body) {
  RONDO_CHECK(body.size() <= kMaxControlBodyBytes, "a control message of {} bytes; at most {}", body.size(),
              kMaxControlBodyBytes);
  std::byte header[kControlHeaderBytes] = {};
  StoreLittle(header, kind);
  StoreLittle(header + kBodyBytesAt, static_cast<std::uint32_t>(body.size()));
  StoreLittle(header + kCrcAt, SumOf(header, body));
  return ToText(header) + ToText(body);
}

Result<ControlFrame> Decode(std::uint8_t kind, Bytes body) {
  ControlFrame frame;
  if (kind == kLaneRequestKind) {
    if (body.size() != sizeof(std::uint32_t)) {
      return Fail(ErrorCode::kProtocol, "a lane request on a control connection has {} bytes; expected {}", body.size(),
                  sizeof(std::uint32_t));
    }
    frame.lane_request = LoadLittle<std::uint32_t>(body.data());
    return frame;
  }
  frame.message.kind = static_cast<ControlKind>(kind);
  frame.message.body = ToText(body);
  return frame;
}

bool KnownKind(std::uint8_t kind) {
  return kind == kLaneRequestKind || (kind >= static_cast<std::uint8_t>(ControlKind::kGoodbye) &&
                                      kind <= static_cast<std::uint8_t>(ControlKind::kHeartbeat));
}

}  // namespace

std::string EncodeControl(const ControlMessage& message) {
  return EncodeFrame(static_cast<std::uint8_t>(message.kind), AsBytes(message.body));
}

std::string EncodeLaneRequest(std::uint32_t index) {
  std::byte body[sizeof index];
  StoreLittle(body, index);
  return EncodeFrame(kLaneRequestKind, body);
}

Status ControlReader::Feed(Bytes bytes, std::vector<ControlFrame>& frames) {
  while (!bytes.empty()) {
    std::size_t due = kControlHeaderBytes;
    if (partial_.size() >= kControlHeaderBytes) due += LoadLittle<std::uint32_t>(partial_.data() + kBodyBytesAt);
    const std::size_t take = std::min(bytes.size(), due - partial_.size());
    partial_.insert(partial_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
    bytes = bytes.subspan(take);
    if (partial_.size() < kControlHeaderBytes) continue;

    const auto kind = LoadLittle<std::uint8_t>(partial_.data());
    const std::size_t body_bytes = LoadLittle<std::uint32_t>(partial_.data() + kBodyBytesAt);
    if (!KnownKind(kind))
      return Fail(ErrorCode::kProtocol, "a message of the unknown kind {} arrived on a control connection", kind);
    if (body_bytes > kMaxControlBodyBytes) {
      return Fail(ErrorCode::kProtocol, "a control message has {} bytes; at most {} are allowed", body_bytes,
                  kMaxControlBodyBytes);
    }
    if (partial_.size() < kControlHeaderBytes + body_bytes) continue;
    const Bytes body = Bytes(partial_).subspan(kControlHeaderBytes);
    const auto expected = LoadLittle<std::uint32_t>(partial_.data() + kCrcAt);
    const std::uint32_t found = SumOf(partial_, body);
    if (expected != found) {
      return Fail(ErrorCode::kCorrupt,
                  "a control message of {} bytes arrived damaged: checksum 0x{:08x} expected, 0x{:08x} found",
                  body_bytes, expected, found);
    }
    RONDO_ASSIGN(ControlFrame frame, Decode(kind, body));
    frames.push_back(std::move(frame));
    partial_.clear();
  }
  return {};
}

}  // namespace rondo::tcp
