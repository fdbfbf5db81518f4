// A lane: an ordered stream of bytes in each direction between this rank and one peer. It never blocks and never calls
// back. What the bytes mean (frames, operations) is the engine's business; a lane only promises order.
//
// Three offsets per direction, all counted from 0 at the lane's birth and monotonic:
//   accepted   the lane took the bytes (sender);
//   released   their source memory may be overwritten (sender). released <= accepted; how far it lags depends on the
//              transport: a socket copies at once, a ring that is read in place releases when the peer has consumed.
//              Write-after-read dependencies and the completion of an operation wait for `released`;
//   consumed   the bytes left the lane for good (receiver).
//
// Alignment: the engine starts every frame's header and payload at a stream offset that is a multiple of kLineBytes. A
// lane with a ring or slots keeps their sizes multiples of kLineBytes, so that payload in place is aligned. Arrival is
// not: any number of bytes may be visible at any time, also a part of an element.
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
  kFailed,  // broken permanently, never resynchronised; failure() says why. What arrived before may still be peeked
};

// Bytes that arrived and stay where they are until consumed: `first` comes before `second` in the stream.
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
  // The reason for kFailed, else null. Lives as long as the lane.
  virtual const Error* failure() const = 0;

  // ---- sending ----

  // Takes as many bytes from the front of `pieces`, in order, as fit now, and says how many (0 while connecting, failed
  // or full). The lane may read the memory until released() has passed it, and never writes it. On a socket one call is
  // one system call, so a header and its payload belong into one call.
  virtual std::size_t Write(std::span<const Bytes> pieces) = 0;

  virtual std::uint64_t accepted() const = 0;
  virtual std::uint64_t released() const = 0;

  // Whether Write takes registered memory of devices (transport/device_memory.h) as it takes other memory. Ask when the
  // lane is open. A lane that falls back to a path without device memory answers false from then on. It then fails if
  // such bytes were taken and have not arrived, or are given later.
  virtual bool sends_device_memory() const { return false; }

  // ---- receiving ----

  // Arrived and unconsumed bytes from the front of the stream, in place. `want` is how many the caller can use: the
  // lane need not look further, and returns at least a few if any have arrived. Valid until the next Consume or
  // ReadInto. A later Peek without either in between returns at least as many, at the same place.
  virtual Arrived Peek(std::size_t want) = 0;
  // Removes `bytes` from the front. REQUIRES: the last Peek showed at least as many.
  virtual void Consume(std::size_t bytes) = 0;
  // Moves arrived bytes from the front into `destination` (its front) and consumes them; returns how many. If Expect
  // has advertised `destination`, the bytes may be there already, and nothing is copied.
  virtual std::size_t ReadInto(MutableBytes destination) = 0;

  // Advertises `destination` (Capabilities::push): the peer may write the bytes of the stream from `stream_offset` on
  // straight into it, from now until a ReadInto of exactly that memory consumes them. Buffers are advertised in stream
  // order, may be split anywhere, and never overlap. False: nothing was advertised, and the bytes come the ordinary
  // way.
  virtual bool Expect(std::uint64_t stream_offset, MutableBytes destination) = 0;

  // The peer has shut down writing and nothing more will arrive: Peek returns all that is left, which may be less than
  // is due. (state() is kEnded only when that is consumed as well.) False if a lane cannot know.
  virtual bool end_arrived() const { return false; }

  // The receiving direction's consumed offset.
  virtual std::uint64_t consumed() const = 0;

  // After this returns, neither the peer nor the lane touches memory that was given to Write or Expect. The lane has
  // failed from then on. Takes bounded time. The error path calls it before a buffer goes back to the user.
  virtual void Revoke() = 0;
};

}  // namespace rondo
