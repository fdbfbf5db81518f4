// A lane: an ordered stream of bytes in each direction between this rank and one peer. It never blocks and never calls
// back. What the bytes mean (frames, operations) is the engine's business; a lane only promises order.
//
// Three offsets per direction, all counted from 0 at the lane's birth and monotonic:
//   accepted   the lane took the bytes (sender);
//   released   their source memory may be overwritten (sender). released <= accepted; how far it lags is the
//              transport's business: a socket copies at once, shared memory read in place releases when the peer has
//              consumed. Write-after-read dependencies and the completion of an operation wait for `released`;
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
  kFailed,  // broken for good, never resynchronised; failure() says why. What arrived before may still be peeked
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
  // or full). The memory stays lent to the lane until released() has passed it; it is only read. One call is one
  // system call where there are any, so a header and its payload belong into one call.
  virtual std::size_t Write(std::span<const Bytes> pieces) = 0;

  virtual std::uint64_t accepted() const = 0;
  virtual std::uint64_t released() const = 0;

  // Whether Write takes registered memory of devices (transport/device_memory.h), any number of bytes of it, as it does
  // other memory; to be asked when the lane is open. Where the lane goes over to a path that does not, it answers false
  // from then on, and such bytes, those that were taken and have not arrived and those given later, fail it.
  virtual bool sends_device_memory() const { return false; }

  // ---- receiving ----

  // Arrived and unconsumed bytes from the front of the stream, in place. `want` is how many the caller can use: the
  // lane need not look further, and fetches at least a few if any have arrived. Valid until the next Consume or
  // ReadInto. A later Peek without either in between shows at least as much, at the same place.
  virtual Arrived Peek(std::size_t want) = 0;
  // Removes `bytes` from the front. REQUIRES: the last Peek showed at least as many.
  virtual void Consume(std::size_t bytes) = 0;
  // Moves arrived bytes from the front into `destination` (its front) and consumes them; returns how many. Where a
  // window granted by Expect covers `destination`, the bytes may be there already and nothing is copied.
  virtual std::size_t ReadInto(MutableBytes destination) = 0;

  // Push placement (Capabilities::push): bytes of the stream from `stream_offset` on may be written straight into
  // `destination` by the peer, from now until they are consumed by a ReadInto of exactly that memory. Grants are made
  // in stream order, may be split anywhere, and never overlap. False: no window could be granted, the bytes come the
  // ordinary way.
  virtual bool Expect(std::uint64_t stream_offset, MutableBytes destination) = 0;

  // The peer has shut down writing and nothing more will arrive: what Peek shows is all there is left, and perhaps not
  // what is due. (state() is kEnded only when that, too, is consumed.) False where a lane cannot tell.
  virtual bool end_arrived() const { return false; }

  // The receiving direction's consumed offset.
  virtual std::uint64_t consumed() const = 0;

  // After this returns, neither the peer nor the lane touches memory lent by Write or granted by Expect. The
  // lane is failed from then on. Bounded time; the error path calls it before a buffer goes back to the user.
  virtual void Revoke() = 0;
};

}  // namespace rondo
