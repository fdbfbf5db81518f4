// Moves a TlsSession's bytes over a socket, without blocking. The descriptor stays the caller's.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/tls.h"

namespace rondo {

enum class Sending : std::uint8_t {
  kDone,     // nothing is left unsent
  kBlocked,  // the socket has no room, so that an edge for writing follows
  kBroken,   // errno says why
};
// Sends what the session has for the peer.
Sending SendUnsent(int fd, TlsSession& session);

enum class Receiving : std::uint8_t {
  kSome,     // the socket is empty now, so that an edge for reading follows when there is more
  kFull,     // as much as there was room for; there may be more
  kNothing,  // the socket has nothing now, or the session no room
  kEnded,    // the stream has ended; the session knows
  kBroken,   // errno says why
};
// One recv into the session.
Receiving ReceiveInto(int fd, TlsSession& session);

}  // namespace rondo
