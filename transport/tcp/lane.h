// A lane over one or two TCP sockets.
//
// A lane is one duplex socket. Between processes of one host it may be two sockets, one per direction
// (TcpOptions::split_local_lanes).
//
// One socket is the default because of these measurements (2 vCPUs, Sapphire Rapids class, Linux 6.18, cubic, medians
// of 3, other load on the machine). With one socket both ends contend for its lock, because loopback delivers inside
// the sender's system call. So with two sockets a program that only streams both ways gained a third (2.3 -> 3.0 GB/s
// each way at 64 KiB). Real lanes gained only a tenth at 64 KiB (16.5 -> 15.0 us an exchange), and nothing measurable
// at 1 MiB and above. But their latency grew by a third (6.4 -> 8.4 us for a round trip of 4 bytes). The reason is that
// acknowledgements no longer share a packet with the answer.
//
// Hot path: Write makes one sendmsg. Peek makes at most one recv, or none while enough bytes are staged. ReadInto
// copies staged bytes and makes at most one recv straight into the destination. None of them allocates or locks.
//
// Thread rule: the owner of the endpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "transport/tcp/socket_lane.h"
#include "transport/tcp/staging.h"

namespace rondo::tcp {

class TcpLane final : public SocketLane {
 public:
  using SocketLane::SocketLane;

  std::size_t Write(std::span<const Bytes> pieces) override;
  std::uint64_t accepted() const override { return accepted_; }
  std::uint64_t released() const override { return accepted_; }  // the kernel has copied the bytes

  Arrived Peek(std::size_t want) override;
  void Consume(std::size_t bytes) override;
  std::size_t ReadInto(MutableBytes destination) override;
  bool Expect(std::uint64_t, MutableBytes) override { return false; }
  bool end_arrived() const override { return ended_; }
  std::uint64_t consumed() const override { return staging_.consumed(); }
  void Revoke() override;

  // ---- for the endpoint ----

  // Takes the socket of one or both directions. The lane opens when both directions have their socket.
  void Adopt(Delivery delivery) override;
  void ShutDownWriting() override;
  void DrainBeforeClose() override;
  bool Note(std::uint32_t events) override;

 private:
  void Fetch(std::size_t bytes);
  // Interprets the result of recv; returns the bytes received.
  std::size_t Received(ssize_t result);
  // Ends the lane if the kernel has announced the end of the peer's stream and all bytes are consumed.
  void LookForEnd();
  void Broke(std::string_view doing, int error) { SocketLane::Broke(doing, error, sender(), staging_.received()); }
  int sender() const { return sender_ ? sender_.get() : receiver_.get(); }

  Fd receiver_;            // carries the peer's bytes, and this rank's bytes too if sender_ is empty
  Fd sender_;              // set only if there are two sockets
  bool can_send_ = false;  // the socket for this rank's bytes is connected and works
  bool can_receive_ = false;
  bool end_announced_ = false;  // the peer's last byte, or a reset, has arrived; some bytes may still be unread
  bool ended_ = false;          // the peer's end of stream was read
  bool write_blocked_ = false;  // the latest Write was cut short because there was no room

  std::uint64_t accepted_ = 0;
  Staging staging_;
};

}  // namespace rondo::tcp
