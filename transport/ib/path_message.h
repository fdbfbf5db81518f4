// What two ranks say to each other over a lane of the base transport, in front of everything else, to agree on a
// reliable connection between their RDMA ports, and later when that has failed, to agree on another. Four lines long,
// so that what follows is as aligned as before.
//
// Encoding: docs/WIRE.md, "Agreeing on RDMA". Thread rule: values; functions are pure.
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
  kOffer = 1,   // the initiator: my end
  kAnswer = 2,  // the other: my end, and it is connected to yours
  kReady = 3,   // the initiator: mine is connected to yours
  kPlain = 4,   // the initiator, instead of kOffer: the base lane is to carry the bytes, and why
  kBroken = 5,  // either, at any time: my end is no more, and why; answered by the same, then the initiator speaks
};

// Where one end lets the other write (stream.h).
struct RemoteRing {
  std::uint64_t address = 0;  // of the ring; credit and grants lie behind it
  std::uint32_t key = 0;
  std::uint32_t notices = 0;  // outstanding at most
  std::uint64_t ring_bytes = 0;
  friend bool operator==(const RemoteRing&, const RemoteRing&) = default;
};

// How far a stream has come at the side that says so (stream.h).
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
  std::uint8_t ports = 0;   // likewise: how many this side can try
  bool your_fault = false;  // likewise: the end that hears this, or the way to it, is what to look at
  std::string why;          // of kPlain and kBroken; cut at kMaxWhyBytes
  friend bool operator==(const PathMessage&, const PathMessage&) = default;
};
inline constexpr std::size_t kPathMessageBytes = 4 * kLineBytes;
inline constexpr std::size_t kMaxWhyBytes = 160;

using PathMessageBytes = std::array<std::byte, kPathMessageBytes>;
void Encode(const PathMessage& message, PathMessageBytes& bytes);
// kProtocol: these are other bytes. What the other end says of itself has been made printable.
Result<PathMessage> Decode(const PathMessageBytes& bytes);

}  // namespace rondo::ib
