// The messages by which two ranks agree, over a lane of the base transport, on a reliable connection between their RDMA
// ports, and on another one when that has failed. Each is four lines long, so that the stream behind it stays aligned.
//
// Encoding: docs/WIRE.md, "RDMA". Thread rule: values; functions are pure.
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
  kOffer = 1,   // from the initiator: my end
  kAnswer = 2,  // from the other: my end, and it is connected to yours
  kReady = 3,   // from the initiator: mine is connected to yours
  kPlain = 4,   // from the initiator, instead of kOffer: the base lane shall carry the bytes, and why
  kBroken = 5,  // from either, at any time: I gave my end up, and why; answered by the same, then the initiator goes on
};

// The ring into which one end lets the other write (stream.h).
struct RemoteRing {
  std::uint64_t address = 0;  // of the ring; credit and grants are behind it
  std::uint32_t key = 0;
  std::uint32_t notices = 0;  // the most that may be outstanding
  std::uint64_t ring_bytes = 0;
  friend bool operator==(const RemoteRing&, const RemoteRing&) = default;
};

// How far a stream has come at the side that sends this (stream.h).
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
  std::uint8_t ports = 0;   // of kBroken: how many ports this side can try
  bool your_fault = false;  // of kBroken: the cause is the receiver of this message, or the way to it
  std::string why;          // of kPlain and kBroken; cut at kMaxWhyBytes
  friend bool operator==(const PathMessage&, const PathMessage&) = default;
};
inline constexpr std::size_t kPathMessageBytes = 4 * kLineBytes;
inline constexpr std::size_t kMaxWhyBytes = 160;

using PathMessageBytes = std::array<std::byte, kPathMessageBytes>;
void Encode(const PathMessage& message, PathMessageBytes& bytes);
// kProtocol: these bytes are no path message. Texts of the other end are made printable.
Result<PathMessage> Decode(const PathMessageBytes& bytes);

}  // namespace rondo::ib
