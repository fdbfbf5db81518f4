// The messages by which two ranks agree on a reliable connection between their RDMA ports, and later on another one if
// the connection has failed. The messages are sent over a lane of the base transport. Each is four cache lines long, so
// that the stream after it stays aligned.
//
// Encoding: docs/WIRE.md, "RDMA". Thread rule: plain values; functions are pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "transport/ib/queue_pair.h"

namespace rondo::ib {

enum class PathWord : std::uint8_t {
  kOffer = 1,   // the initiator sends the values of its end of the connection (queue pair and ring)
  kAnswer = 2,  // the other side sends the values of its end, which it has connected to the initiator's end
  kReady = 3,   // the initiator has connected its end, too
  kPlain = 4,   // the initiator sends it instead of kOffer: the base lane must carry the bytes; `why` is the reason
  // The sender has closed its end; `why` is the reason. Either side can send this message at any time. The other side
  // replies with kBroken; then the initiator continues.
  kBroken = 5,
};

// One end's ring, into which the other end writes (stream.h).
struct RemoteRing {
  std::uint64_t address = 0;  // the ring's address; credit and grants follow the ring in memory
  std::uint32_t key = 0;
  std::uint32_t notices = 0;  // the largest number of notices that may be outstanding
  std::uint64_t ring_bytes = 0;
  friend bool operator==(const RemoteRing&, const RemoteRing&) = default;
};

// The progress of a stream at the sender of this message (stream.h).
struct Progress {
  std::uint64_t arrived = 0;
  std::uint64_t consumed = 0;
  friend bool operator==(const Progress&, const Progress&) = default;
};

struct PathMessage {
  PathWord word = PathWord::kPlain;
  PathEnd end;
  RemoteRing remote_ring;
  Progress progress;        // set for kBroken
  std::uint8_t ports = 0;   // set for kBroken: the number of ports that the sender can try
  bool your_fault = false;  // set for kBroken: the cause is the receiver of this message, or the network path to it
  std::string why;          // the reason, for kPlain and kBroken; cut to kMaxWhyBytes when it is sent
  friend bool operator==(const PathMessage&, const PathMessage&) = default;
};
inline constexpr std::size_t kPathMessageBytes = 4 * kLineBytes;
inline constexpr std::size_t kMaxWhyBytes = 160;

using PathMessageBytes = std::array<std::byte, kPathMessageBytes>;
void Encode(const PathMessage& message, PathMessageBytes& bytes);
// kProtocol: the bytes are not a path message. Unprintable characters in texts are replaced.
Result<PathMessage> Decode(const PathMessageBytes& bytes);

}  // namespace rondo::ib
