#include "base/wire.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "base/tls_socket.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxPieces = 64;

ssize_t SendPlain(int fd, std::span<const Bytes> pieces) {
  std::array<iovec, kMaxPieces> vectors;
  const std::size_t count = std::min(pieces.size(), kMaxPieces);
  for (std::size_t i = 0; i < count; ++i) {
    vectors[i] = {.iov_base = const_cast<std::byte*>(pieces[i].data()), .iov_len = pieces[i].size()};
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  ssize_t sent;
  do {
    sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

ssize_t ReceivePlain(int fd, MutableBytes to) {
  ssize_t got;
  do {
    got = recv(fd, to.data(), to.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  return got;
}

ssize_t Failed(int error) {
  errno = error;
  return -1;
}

}  // namespace

ssize_t Wire::Receive(int fd, MutableBytes to) {
  if (!tls_) {
    const ssize_t got = ReceivePlain(fd, to);
    if (got > 0 && beginning_bytes_ == 0) {
      beginning_bytes_ = std::min(static_cast<std::size_t>(got), beginning_.size());
      std::copy_n(to.begin(), beginning_bytes_, beginning_.begin());
    }
    return got;
  }
  while (true) {
    if (!Shake(fd)) return failure_->code() == ErrorCode::kConnectionReset ? 0 : Failed(EPROTO);
    if (tls_->established()) {
      const Result<std::size_t> got = tls_->Read(to);
      if (!got) {
        failure_ = got.error();
        if (failure_->code() != ErrorCode::kConnectionReset) SendUnsent(fd, *tls_);
        // The stream ended without TLS's notice of the end. That is no error here, because a protocol of messages
        // detects by itself whether a message was cut off.
        return failure_->code() == ErrorCode::kConnectionReset ? 0 : Failed(EPROTO);
      }
      if (*got > 0) return static_cast<ssize_t>(*got);
      if (tls_->ended()) return 0;
    }
    if (const ssize_t filled = Fill(fd); filled < 0) return filled;
  }
}

// Advances the handshake as far as possible, then writes the bytes that waited for it.
bool Wire::Shake(int fd) {
  if (failure_) return false;
  if (tls_->established()) return true;
  Result<bool> shaken = false;
  while (true) {
    shaken = tls_->Handshake();
    const bool had_unsent = unsent();
    const Sending sent = SendUnsent(fd, *tls_);  // sends an alert too
    // The session's output may exceed its buffer (a chain of certificates), so the handshake continues after each send.
    if (!shaken || *shaken || !had_unsent || sent != Sending::kDone) break;
  }
  if (!shaken) {
    failure_ = shaken.error();
    return false;
  }
  if (*shaken && !early_.empty()) {
    const std::string early = std::exchange(early_, {});
    const std::array<Bytes, 1> pieces{AsBytes(early)};
    if (const auto written = tls_->Write(pieces); !written) failure_ = written.error();
    SendUnsent(fd, *tls_);
  }
  return !failure_;
}

// Moves bytes from the socket to TLS. 0: bytes were moved, or the stream has ended.
ssize_t Wire::Fill(int fd) {
  const MutableBytes room = tls_->Room();
  if (room.empty()) return Failed(EAGAIN);
  const ssize_t got = ReceivePlain(fd, room);
  if (got < 0) return got;
  if (got == 0) {
    tls_->ReceivedEnd();
    return 0;
  }
  if (beginning_bytes_ == 0) {
    beginning_bytes_ = std::min(static_cast<std::size_t>(got), beginning_.size());
    std::copy_n(room.begin(), beginning_bytes_, beginning_.begin());
  }
  tls_->Received(static_cast<std::size_t>(got));
  return 0;
}

ssize_t Wire::Send(int fd, std::span<const Bytes> pieces) {
  if (!tls_) return SendPlain(fd, pieces);
  if (failure_) return Failed(EPIPE);
  if (!tls_->established()) {
    std::size_t bytes = 0;
    for (const Bytes piece : pieces) bytes += piece.size();
    if (early_.size() + bytes > kMaxEarlyBytes) return Failed(EAGAIN);
    for (const Bytes piece : pieces) early_ += ToText(piece);
    Shake(fd);
    return static_cast<ssize_t>(bytes);
  }
  if (!Flush(fd)) return Failed(EAGAIN);
  const Result<std::size_t> taken = tls_->Write(pieces);
  if (!taken) {
    failure_ = taken.error();
    return Failed(EPIPE);
  }
  return SendUnsent(fd, *tls_) == Sending::kBroken ? -1 : static_cast<ssize_t>(*taken);
}

bool Wire::SendAll(int fd, Bytes bytes) {
  const std::array<Bytes, 1> pieces{bytes};
  return Send(fd, pieces) == static_cast<ssize_t>(bytes.size());
}

bool Wire::Flush(int fd) {
  if (!tls_) return true;
  // The session's output may exceed its buffer, so the handshake may have more to send.
  if (!tls_->established()) Shake(fd);
  return SendUnsent(fd, *tls_) != Sending::kBlocked;
}

}  // namespace rondo
