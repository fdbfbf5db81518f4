// A connected socket, with TLS or without. Protocols that exchange messages (handshakes, control frames, the store's
// messages) read and write through a Wire, so their code is the same in both cases. Fast streams have their own code
// (transport/tcp/tls_lane.h).
//
// The caller keeps ownership of the descriptor, which must not block. The caller polls the descriptor for readiness.
// Polling does not detect bytes that TLS has already read from the socket, so the caller must also check HasReceived.
//
// Thread rule: one thread at a time.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/tls.h"

namespace rondo {

class Wire {
 public:
  // The limit for bytes that Send accepts before TLS is established. These bytes (a hello, for example) are sent when
  // TLS is established.
  static constexpr std::size_t kMaxEarlyBytes = 8192;

  Wire() = default;
  // `tls` may be null (no TLS), and may already be established.
  explicit Wire(std::unique_ptr<TlsSession> tls) : tls_(std::move(tls)) {}

  bool has_tls() const { return tls_ != nullptr; }

  // Like recv: copies bytes into `to`; returns 0 at the end of the stream; -1 and errno EAGAIN if no bytes are
  // available now; -1 and EPROTO if TLS failed. In that case failure() says why, and an alert has been sent to the
  // peer. Also advances the TLS handshake, for which it may also send.
  ssize_t Receive(int fd, MutableBytes to);
  // Like sendmsg: returns how many bytes from the front were accepted. Accepted bytes are perhaps not sent yet; Flush
  // sends them. -1 and errno EAGAIN: no bytes can be accepted now. After a failure of TLS the next Receive reports the
  // reason.
  ssize_t Send(int fd, std::span<const Bytes> pieces);
  // Sends the first message of a connection, for which the socket has room. Returns false if not all bytes were
  // accepted; some may have been sent.
  bool SendAll(int fd, Bytes bytes);
  // Sends the accepted bytes. Returns true if all of them are sent, or if the connection cannot send any more.
  bool Flush(int fd);
  // Whether some accepted bytes have not been sent. When the socket has room again, the caller must call Flush.
  bool unsent() const { return tls_ != nullptr && !tls_->Unsent().empty(); }
  // Whether Receive still has to return bytes that were already read from the socket.
  bool HasReceived() const { return tls_ != nullptr && tls_->HasReceived(); }

  // Why TLS failed; usually kAuth.
  const std::optional<Error>& failure() const { return failure_; }
  // The first bytes that were received, at most 12. They identify a peer that does not speak TLS.
  Bytes beginning() const { return Bytes(beginning_).first(beginning_bytes_); }
  // Transfers the established session to the caller.
  std::unique_ptr<TlsSession> ReleaseTls() { return std::move(tls_); }
  // "; TLS 1.3, ..."; empty without TLS.
  std::string Describe() const { return tls_ != nullptr ? "; " + tls_->Describe() : ""; }

 private:
  // Advances the TLS handshake. False: TLS failed.
  bool Shake(int fd);
  ssize_t Fill(int fd);

  std::unique_ptr<TlsSession> tls_;
  std::string early_;
  std::optional<Error> failure_;
  std::array<std::byte, 12> beginning_{};
  std::size_t beginning_bytes_ = 0;
};

}  // namespace rondo
