// A connected socket that speaks TLS where it is told to, and else nothing but the kernel's calls: what protocols that
// exchange messages (hellos, control frames, the store's) read and write through, so that they need not know. Streams
// that are to be fast have code of their own (transport/tcp/tls_lane.h).
//
// The descriptor stays the caller's and does not block. Readiness is looked for on it; only what HasReceived says is
// not seen there.
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
  // What may be sent before TLS is established, and waits for it: hellos.
  static constexpr std::size_t kMaxEarlyBytes = 8192;

  Wire() = default;
  // `tls`: may be null, and may be established.
  explicit Wire(std::unique_ptr<TlsSession> tls) : tls_(std::move(tls)) {}

  bool has_tls() const { return tls_ != nullptr; }

  // As recv: bytes into `to`; 0 at the stream's end; -1 and errno: EAGAIN when there is nothing now, EPROTO when TLS
  // failed and failure() says why (the peer has been told). Carries the handshake on in both directions.
  ssize_t Receive(int fd, MutableBytes to);
  // As sendmsg: how many bytes from the front were taken, which is not yet sent: Flush. -1 and errno: EAGAIN when none
  // can be taken now. A failure of TLS is told by Receive.
  ssize_t Send(int fd, std::span<const Bytes> pieces);
  // All of these bytes or nothing; for the first messages of a connection, which has room for them.
  bool SendAll(int fd, Bytes bytes);
  // Sends what was taken. True: nothing is left, or never can be.
  bool Flush(int fd);
  // Something was taken and has not been sent: it needs room in the socket, and Flush.
  bool unsent() const { return tls_ != nullptr && !tls_->Unsent().empty(); }
  // Bytes have been taken from the socket that Receive has not given.
  bool HasReceived() const { return tls_ != nullptr && tls_->HasReceived(); }

  // Why TLS failed; kAuth mostly.
  const std::optional<Error>& failure() const { return failure_; }
  // The first bytes that came, at most 12: what it is that is no TLS.
  Bytes beginning() const { return Bytes(beginning_).first(beginning_bytes_); }
  // Gives the established session away.
  std::unique_ptr<TlsSession> ReleaseTls() { return std::move(tls_); }
  // ", TLS 1.3 ..."; empty without.
  std::string Describe() const { return tls_ != nullptr ? "; " + tls_->Describe() : ""; }

 private:
  // False: failed.
  bool Shake(int fd);
  ssize_t Fill(int fd);

  std::unique_ptr<TlsSession> tls_;
  std::string early_;
  std::optional<Error> failure_;
  std::array<std::byte, 12> beginning_{};
  std::size_t beginning_bytes_ = 0;
};

}  // namespace rondo
