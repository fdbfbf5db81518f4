// What a process leaves at the abstract socket of another one's endpoint.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/net/fd.h"
#include "transport/shm/segment.h"

namespace rondo::shm {

inline constexpr std::uint64_t kConnectMagic = 0x6c6c61632d6d6873;

enum class ConnectKind : std::uint32_t { kLane = 1, kSharedSegment = 2, kRegion = 3 };

// Both ends are one version of Rondo on one machine (the meeting has seen to that): the bytes as they lie in memory.
struct ConnectMessage {
  std::uint64_t magic = kConnectMagic;
  ConnectKind kind = ConnectKind::kLane;
  Rank from = kNoRank;
  std::uint32_t index = 0;  // of the lane or region
  std::uint32_t reserved = 0;
  Nonce nonce{};  // of the lane's segment
  bool operator==(const ConnectMessage&) const = default;
};

struct ConnectRequest {
  ConnectMessage message;
  Fd connection;
  Fd signal;   // of the caller's endpoint; not with a region
  Fd segment;  // of a lane or region
};

}  // namespace rondo::shm
