// A lane: an ordered stream of bytes in each direction between this rank and one peer. It never blocks and never calls
// back. What the bytes mean (frames, operations) is the engine's business; a lane only promises order.
//
// Each direction has three byte offsets. They start at 0 when the lane is made, and never decrease:
//   accepted   the sender's lane has taken the bytes before this offset;
//   released   the sender may overwrite the source memory of the bytes before this offset. released <= accepted. The
//              transport decides how far `released` is behind: a socket copies at once, but a ring that the peer reads
//              in place releases bytes only after the peer has consumed them. Write-after-read dependencies and the
//              completion of an operation wait for `released`;
//   consumed   the receiver has taken the bytes before this offset out of the lane.
//
// Alignment: the engine starts every frame's header and payload at a stream offset that is a multiple of kLineBytes. If
// a lane has a ring or slots, their sizes must be multiples of kLineBytes, so that payload is aligned in them, too.
// Arrival is not aligned: any number of bytes may be visible at any time, even a part of an element.
//
// Thread rule: one thread at a time, the owner of the lane's Endpoint. Zero-length arguments are legal and do nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/error.h"
#include "base/ids.h"

namespace rondo {

enum class LaneState : std::uint8_t {
  kConnecting,  // nothing can be sent yet; nothing has arrived
  kOpen,
  kEnded,   // the peer shut down writing and everything it sent has been consumed; sending may still work
  kFailed,  // broken permanently; failure() says why. Bytes that arrived before may still be peeked
};

// Bytes that have arrived, and that stay where they are until they are consumed. In the stream, `first` precedes
// `second`.
struct Arrived {
  Bytes first;
  Bytes second;
  std::size_t size() const { return first.size() + second.size(); }
};

class Lane {
 public:
  virtual ~Lane() = default;

  virtual Rank peer() const = 0;
  virtual LaneState state() const = 0;
  // The reason for kFailed; null in other states. It lives as long as the lane.
  virtual const Error* failure() const = 0;

  // ---- sending ----

  // Takes as many bytes from the front of `pieces`, in order, as fit now, and returns their number (0 while connecting,
  // failed or full). The lane may read the memory until released() has passed it, and never writes it. On a socket one
  // call is one system call, so pass a header and its payload in one call.
  virtual std::size_t Write(std::span<const Bytes> pieces) = 0;

  virtual std::uint64_t accepted() const = 0;
  virtual std::uint64_t released() const = 0;

  // Whether Write takes registered memory of devices (transport/device_memory.h) like other memory. The answer is valid
  // as soon as the lane is open. A lane that falls back to a path without device memory returns false from then on.
  // Such a lane fails if it took device memory that has not arrived, or if it gets device memory later.
  virtual bool sends_device_memory() const { return false; }

  // ---- receiving ----

  // Returns bytes from the front of the stream that have arrived and are not consumed, in place. `want` is the number
  // of bytes that the caller can use. The lane may return fewer, but returns some if any have arrived. The bytes stay
  // valid until the next Consume or ReadInto. If neither is called in between, a later Peek returns at least as many
  // bytes as this one, at the same addresses.
  virtual Arrived Peek(std::size_t want) = 0;
  // Removes `bytes` bytes from the front of the stream. REQUIRES: the latest Peek returned at least that many.
  virtual void Consume(std::size_t bytes) = 0;
  // Moves arrived bytes from the front of the stream to the front of `destination`, consumes them and returns their
  // number. If Expect has advertised `destination`, the bytes may be there already, and nothing is copied.
  virtual std::size_t ReadInto(MutableBytes destination) = 0;

  // Advertises `destination` (Capabilities::push). The peer may write the stream's bytes from `stream_offset` on
  // straight into it. The advertisement ends when ReadInto with exactly that memory consumes the bytes. Buffers must be
  // advertised in stream order and must not overlap. The stream may be divided into buffers at any byte. False: nothing
  // was advertised, and the bytes arrive like all others.
  virtual bool Expect(std::uint64_t stream_offset, MutableBytes destination) = 0;

  // True: the peer has shut down writing, and nothing more will arrive. Peek then returns all remaining bytes, which
  // may be fewer than expected. (state() is kEnded only after these are consumed.) A lane that cannot detect this
  // returns false.
  virtual bool end_arrived() const { return false; }

  // The offset `consumed` of the receiving direction.
  virtual std::uint64_t consumed() const = 0;

  // After this returns, neither the peer nor the lane touches memory that was given to Write or Expect, and the lane
  // has failed. The call takes bounded time. The error path calls it before the user gets a buffer back.
  virtual void Revoke() = 0;
};

}  // namespace rondo
