// A connected socket, with TLS or without. Protocols that exchange messages (handshakes, control frames, the store's
// messages) read and write through a Wire, so their code is the same in both cases. Fast streams have their own code
// (transport/tcp/tls_lane.h).
//
// The caller keeps ownership of the descriptor, which must not block. The caller polls the descriptor for readiness.
// Polling does not see bytes that TLS has already taken from the socket: check HasReceived for them.
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
  // The limit for bytes that are sent before TLS is established. They wait for it; this is used for hellos.
  static constexpr std::size_t kMaxEarlyBytes = 8192;

  Wire() = default;
  // `tls` may be null (no TLS), and may already be established.
  explicit Wire(std::unique_ptr<TlsSession> tls) : tls_(std::move(tls)) {}

  bool has_tls() const { return tls_ != nullptr; }

  // Like recv: copies bytes into `to`; returns 0 at the end of the stream; -1 and errno EAGAIN if no bytes are
  // available now; -1 and EPROTO if TLS failed: failure() says why, and an alert has been sent to the peer. Also
  // advances the TLS handshake, sending and receiving.
  ssize_t Receive(int fd, MutableBytes to);
  // Like sendmsg: returns how many bytes from the front were accepted. They may not be sent yet: see Flush. -1 and
  // errno EAGAIN: none can be accepted now. After a failure of TLS the next Receive reports the reason.
  ssize_t Send(int fd, std::span<const Bytes> pieces);
  // Sends a first message of a connection, for which there is room. False: not all bytes were accepted, maybe a part.
  bool SendAll(int fd, Bytes bytes);
  // Sends the accepted bytes. True: none are left, or the connection cannot send any more.
  bool Flush(int fd);
  // Whether accepted bytes have not been sent. They need room in the socket, and a call of Flush.
  bool unsent() const { return tls_ != nullptr && !tls_->Unsent().empty(); }
  // Whether bytes were taken from the socket that Receive has not returned.
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
