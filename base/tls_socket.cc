#include "base/tls_socket.h"

#include <sys/socket.h>

namespace rondo {

Sending SendUnsent(int fd, TlsSession& session) {
  while (true) {
    const Bytes front = session.Unsent();
    if (front.empty()) return Sending::kDone;
    const ssize_t sent = send(fd, front.data(), front.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? Sending::kBlocked : Sending::kBroken;
    }
    session.Sent(static_cast<std::size_t>(sent));
  }
}

Receiving ReceiveInto(int fd, TlsSession& session) {
  const MutableBytes room = session.Room();
  if (room.empty()) return Receiving::kNothing;
  ssize_t got;
  do {
    got = recv(fd, room.data(), room.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    session.Received(static_cast<std::size_t>(got));
    return static_cast<std::size_t>(got) == room.size() ? Receiving::kFull : Receiving::kSome;
  }
  if (got < 0) return errno == EAGAIN ? Receiving::kNothing : Receiving::kBroken;
  session.ReceivedEnd();
  return Receiving::kEnded;
}

}  // namespace rondo
