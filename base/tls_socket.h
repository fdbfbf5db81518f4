// Moves a TlsSession's bytes over a socket, without blocking. The descriptor stays the caller's.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/tls.h"

namespace rondo {

enum class Moved : std::uint8_t {
  kAll,      // nothing is left unsent / bytes were received
  kBlocked,  // the socket has no room, so that an edge for writing follows / has no bytes now, or the session no room
  kEnded,    // of receiving: the stream has ended; the session knows
  kBroken,   // errno says why
};

// Sends what the session has for the peer.
Moved SendUnsent(int fd, TlsSession& session);
// One recv into the session.
Moved ReceiveInto(int fd, TlsSession& session);

}  // namespace rondo
