// Moves the bytes of a TlsSession over a socket without blocking. The caller keeps ownership of the descriptor.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/tls.h"

namespace rondo {

enum class Sending : std::uint8_t {
  kDone,     // all bytes were sent
  kBlocked,  // the socket's buffer is full; an edge-triggered write event will follow
  kBroken,   // errno says why
};
// Sends the bytes that the session has for the peer, until the socket accepts no more.
Sending SendUnsent(int fd, TlsSession& session);

enum class Receiving : std::uint8_t {
  kSome,     // the socket is empty now; an edge-triggered read event follows when more arrives
  kFull,     // the session's buffer is full; the socket may hold more
  kNothing,  // the socket has no bytes now, or the session has no room
  kEnded,    // the stream has ended; the session has been notified
  kBroken,   // errno says why
};
// Reads once from the socket and passes the bytes to the session.
Receiving ReceiveInto(int fd, TlsSession& session);

}  // namespace rondo
