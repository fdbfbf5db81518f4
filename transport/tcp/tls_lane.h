// A lane whose one socket carries TLS records.
//
// Sending. Write encrypts at most kTlsLaneBatchBytes, and begins the next batch only when the kernel has all of this
// one: so the source of all but one batch is released, and what is accepted does not wait here for an owner who has
// gone to do other things. released() follows the kernel, not the encryption: an operation that ends when all is
// released leaves nothing behind in this process.
//
// Receiving. One recv takes up to kTlsLaneBufferBytes of records; ReadInto decrypts straight into the destination (but
// for what a Peek had staged).
//
// No allocation in steady state, no lock. An end of the stream that was not announced is a failure: with TLS whoever
// can write into the path can still cut it, and must not be able to make that look like an end.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <cstdint>
#include <memory>

#include "base/tls.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/socket_lane.h"
#include "transport/tcp/staging.h"

namespace rondo::tcp {

inline constexpr std::size_t kTlsLaneBatchRecords = 8;
inline constexpr std::size_t kTlsLaneBufferBytes = kTlsLaneBatchRecords * (kTlsRecordBytes + kTlsOverheadBytes);

class TlsLane final : public SocketLane {
 public:
  using SocketLane::SocketLane;

  std::size_t Write(std::span<const Bytes> pieces) override;
  std::uint64_t accepted() const override { return accepted_; }
  std::uint64_t released() const override { return released_; }

  Arrived Peek(std::size_t want) override;
  void Consume(std::size_t bytes) override;
  std::size_t ReadInto(MutableBytes destination) override;
  bool Expect(std::uint64_t, MutableBytes) override { return false; }
  bool end_arrived() const override { return ended_; }
  std::uint64_t consumed() const override { return staging_.consumed(); }
  void Revoke() override;

  // ---- for the endpoint ----

  // REQUIRES: a session, and a socket for both directions.
  void Adopt(Delivery delivery) override;
  void ShutDownWriting() override;
  void DrainBeforeClose() override;
  bool Note(std::uint32_t events) override;
  void Flush() override {
    if (unsent_) SendUnsent();
  }

 private:
  // False: the kernel has no room for all of it.
  bool SendUnsent();
  // As many bytes as have arrived and fit. Where they do not fill it, the socket was empty, so that an edge follows.
  std::size_t Decrypt(MutableBytes to);
  void Fetch(std::size_t bytes);
  void LookForEnd();

  Fd fd_;
  std::unique_ptr<TlsSession> tls_;
  bool can_send_ = false;
  bool can_receive_ = false;
  bool end_announced_ = false;  // the peer's last byte, or a reset, has arrived
  bool ended_ = false;          // the peer's end of stream was read
  bool write_blocked_ = false;  // the last Write was cut short for want of room
  bool unsent_ = false;         // the session has something for the kernel
  bool shutting_down_ = false;  // once that is sent
  std::uint64_t accepted_ = 0;
  std::uint64_t released_ = 0;
  Staging staging_;
};

}  // namespace rondo::tcp
