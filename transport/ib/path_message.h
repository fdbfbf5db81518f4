// The messages by which two ranks agree on a reliable connection between their RDMA ports, and on another one if it has
// failed. They are sent over a lane of the base transport. Each is four cache lines long, so that the stream after it
// stays aligned.
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
  kOffer = 1,   // from the initiator: its end
  kAnswer = 2,  // from the other side: its end, which is connected to the initiator's end
  kReady = 3,   // from the initiator: its end is connected, too
  kPlain = 4,   // from the initiator instead of kOffer: the base lane must carry the bytes; says why
  kBroken = 5,  // from either side at any time: it has closed its end; says why. The other side answers with kBroken;
                // then the initiator continues
};

// The ring of one end into which the other end writes (stream.h).
struct RemoteRing {
  std::uint64_t address = 0;  // of the ring, which credit and grants follow in memory
  std::uint32_t key = 0;
  std::uint32_t notices = 0;  // the most that may be outstanding
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
  Progress progress;        // of kBroken
  std::uint8_t ports = 0;   // of kBroken: how many ports the sender can try
  bool your_fault = false;  // of kBroken: the cause is the receiver of this message, or the network path to it
  std::string why;          // of kPlain and kBroken; cut at kMaxWhyBytes
  friend bool operator==(const PathMessage&, const PathMessage&) = default;
};
inline constexpr std::size_t kPathMessageBytes = 4 * kLineBytes;
inline constexpr std::size_t kMaxWhyBytes = 160;

using PathMessageBytes = std::array<std::byte, kPathMessageBytes>;
void Encode(const PathMessage& message, PathMessageBytes& bytes);
// kProtocol: the bytes are not a path message. Unprintable characters of texts are replaced.
Result<PathMessage> Decode(const PathMessageBytes& bytes);

}  // namespace rondo::ib
