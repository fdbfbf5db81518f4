// A reliable connection: one queue pair and its completion queue. The functions change the state of the queue pair
// (InfiniBand Architecture Specification 1, 10.3.1):
//
//   Make      RESET -> INIT   receives may be posted; nothing is received yet
//   Connect   -> RTR -> RTS   to the other end, whose values came in a path message; then sends may be posted
//   Break     -> ERR          all posted requests complete with an error; the device no longer accesses memory
//
// Thread rule: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/ib/device.h"

namespace rondo::ib {

// The values of one end of a connection that the other end needs.
struct PathEnd {
  std::uint32_t queue_pair = 0;
  std::uint32_t first_packet = 0;  // the sequence number of the first packet, 24 bits
  std::uint16_t lid = 0;
  std::uint16_t mtu_bytes = 0;
  bool ethernet = false;
  std::array<std::byte, 16> gid{};
  friend bool operator==(const PathEnd&, const PathEnd&) = default;
};

struct QueuePairOptions {
  std::uint32_t sends = 0;         // the largest number of outstanding sends
  std::uint32_t receives = 0;      // the largest number of outstanding receives
  std::uint32_t pieces = 1;        // the largest number of pieces of memory that one send gathers
  std::uint32_t inline_bytes = 0;  // the wanted number of inline bytes; inline_bytes() returns the allowed number
  // An unacknowledged packet is sent again after 4.096 us x 2^timeout_exponent, `retries` times.
  std::uint8_t timeout_exponent = 16;
  std::uint8_t retries = 6;  // at most 6, because 7 means "without limit" to some drivers
  std::uint8_t service_level = 0;
  std::uint8_t traffic_class = 0;
};

class QueuePair {
 public:
  // Makes a queue pair. Events for its completions arrive on `channel`, with `own` as their context.
  static Result<QueuePair> Make(std::shared_ptr<const Device> device, ibv_comp_channel* channel, void* own,
                                const QueuePairOptions& options);
  QueuePair() = default;  // has no queue pair
  QueuePair(QueuePair&&) = default;
  QueuePair& operator=(QueuePair&&) = default;

  const PathEnd& end() const { return end_; }
  // kUnreachable: the message names the end that cannot be reached, and says what to check. kProtocol: the other end's
  // values are invalid.
  Status Connect(const PathEnd& peer);
  // False: the device refuses, so the posted requests do not complete. The connection still ends when the queue pair is
  // destroyed.
  bool Break();

  ibv_qp* get() const { return pair_.get(); }
  ibv_cq* completions() const { return queue_.get(); }
  std::uint32_t inline_bytes() const { return inline_bytes_; }
  // The smaller of the MTUs of both ends. Valid after Connect.
  int mtu_bytes() const { return mtu_bytes_; }

 private:
  QueuePair(std::shared_ptr<const Device> device, const QueuePairOptions& options)
      : device_(std::move(device)), options_(options) {}

  std::shared_ptr<const Device> device_;
  QueuePairOptions options_;
  VerbsHandle<ibv_cq> queue_;
  VerbsHandle<ibv_qp> pair_;  // destroyed before its completion queue
  PathEnd end_;
  std::uint32_t inline_bytes_ = 0;
  int mtu_bytes_ = 0;
};

}  // namespace rondo::ib
