// What a process sends to the abstract socket of another process's endpoint: a message, and descriptors with it.
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/net/fd.h"
#include "transport/shm/segment.h"

namespace rondo::shm {

inline constexpr std::uint64_t kConnectMagic = 0x6c6c61632d6d6873;

enum class ConnectKind : std::uint32_t { kLane = 1, kSharedSegment = 2, kRegion = 3 };

// The bytes are sent as they are in memory, because both ends run one version of Rondo on one machine. The rendezvous
// has checked that.
struct ConnectMessage {
  std::uint64_t magic = kConnectMagic;
  ConnectKind kind = ConnectKind::kLane;
  Rank from = kNoRank;
  std::uint32_t index = 0;  // the index of the lane or region
  std::uint32_t reserved = 0;
  Nonce nonce{};  // the nonce of the lane's segment
  bool operator==(const ConnectMessage&) const = default;
};

struct ConnectRequest {
  ConnectMessage message;
  Fd connection;
  Fd signal;   // the event descriptor of the sender's endpoint; empty for a region
  Fd segment;  // the memory of a lane or region
};

}  // namespace rondo::shm
