#include "base/tls_socket.h"

#include <sys/socket.h>

namespace rondo {

Moved SendUnsent(int fd, TlsSession& session) {
  while (true) {
    const Bytes front = session.Unsent();
    if (front.empty()) return Moved::kAll;
    const ssize_t sent = send(fd, front.data(), front.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? Moved::kBlocked : Moved::kBroken;
    }
    session.Sent(static_cast<std::size_t>(sent));
  }
}

Moved ReceiveInto(int fd, TlsSession& session) {
  const MutableBytes room = session.Room();
  if (room.empty()) return Moved::kBlocked;
  ssize_t got;
  do {
    got = recv(fd, room.data(), room.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    session.Received(static_cast<std::size_t>(got));
    return Moved::kAll;
  }
  if (got < 0) return errno == EAGAIN ? Moved::kBlocked : Moved::kBroken;
  session.ReceivedEnd();
  return Moved::kEnded;
}

}  // namespace rondo
