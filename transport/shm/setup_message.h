// The messages that ranks exchange over a lane to set up a shared segment. All have the same length.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "transport/lane.h"
#include "transport/upgrade/message.h"

namespace rondo::shm {

enum class SetupKind : std::uint32_t { kCalled = 1, kMade, kMapped, kReady, kCannot, kNone };

struct SetupMessage {
  static constexpr std::uint64_t kMagic = 0x64726f772d6d6873;

  std::uint64_t magic = kMagic;
  SetupKind kind = SetupKind::kNone;
  std::uint32_t reserved = 0;
  std::array<char, 240> why{};  // the reason, for kCannot and kNone

  static SetupMessage Of(SetupKind kind, std::string_view why = {}) {
    SetupMessage message;
    message.kind = kind;
    std::copy_n(why.data(), std::min(why.size(), message.why.size() - 1), message.why.data());
    return message;
  }
  std::string Why() const { return {why.data(), strnlen(why.data(), why.size())}; }
};
static_assert(sizeof(SetupMessage) == 256);

using SetupSender = MessageSender<SetupMessage>;

class SetupReader {
 public:
  std::optional<SetupMessage> Next(Lane& lane) {
    std::optional<SetupMessage> message = messages_.Next(lane);
    if (message && message->magic != SetupMessage::kMagic)
      message->kind = SetupKind{};  // an unknown kind, which the reader refuses
    return message;
  }

 private:
  MessageReader<SetupMessage> messages_;
};

}  // namespace rondo::shm
