// A lane with one socket, which carries TLS records.
//
// Sending. Write encrypts at most kTlsLaneBatchRecords records, and begins the next batch only when the kernel has
// taken the whole previous batch. So at most one batch of accepted bytes waits in this process while the owner does
// other work. released() counts bytes that the kernel has taken, not encrypted bytes. So when an operation has ended,
// none of its bytes wait in this process.
//
// Receiving. One recv takes up to kTlsLaneBufferBytes of records. ReadInto decrypts straight into the destination,
// except for bytes that a Peek has already decrypted into the lane's ring.
//
// No function allocates in steady state, and none locks. If the stream ends without TLS's closing message, the lane
// fails. An attacker on the path can cut a connection, but cannot make the cut look like an orderly end.
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

  // REQUIRES: `delivery` has a TLS session, and a socket for both directions.
  void Adopt(Delivery delivery) override;
  void ShutDownWriting() override;
  void DrainBeforeClose() override;
  bool Note(std::uint32_t events) override;
  void Flush() override {
    if (unsent_) SendUnsent();
  }

 private:
  // False: the kernel has no room for all unsent bytes.
  bool SendUnsent();
  // Decrypts as many bytes as have arrived and fit into `to`. If they do not fill `to`, the socket was empty, so an
  // epoll edge follows the next arrival.
  std::size_t Decrypt(MutableBytes to);
  void Fetch(std::size_t bytes);
  void LookForEnd();

  Fd fd_;
  std::unique_ptr<TlsSession> tls_;
  bool can_send_ = false;
  bool can_receive_ = false;
  bool end_announced_ = false;  // the peer's last byte, or a reset, has arrived
  bool ended_ = false;          // the peer's end of stream was read
  bool write_blocked_ = false;  // the latest Write was cut short because there was no room
  bool unsent_ = false;         // the session has bytes that the kernel has not taken yet
  bool shutting_down_ = false;  // true: writing will be shut down when no unsent bytes are left
  std::uint64_t accepted_ = 0;
  std::uint64_t released_ = 0;
  Staging staging_;
};

}  // namespace rondo::tcp
