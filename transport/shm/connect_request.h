// What a process leaves at the abstract socket of another process's endpoint: a message, and descriptors with it.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/net/fd.h"
#include "transport/shm/segment.h"

namespace rondo::shm {

inline constexpr std::uint64_t kConnectMagic = 0x6c6c61632d6d6873;

enum class ConnectKind : std::uint32_t { kLane = 1, kSharedSegment = 2, kRegion = 3 };

// The bytes go as they are in memory: both ends are one version of Rondo on one machine, which the rendezvous has
// checked.
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
  Fd signal;   // the event descriptor of the sender's endpoint; not with a region
  Fd segment;  // of a lane or region
};

}  // namespace rondo::shm
