// A stream of bytes each way over one reliable connection.
//
// Each side has a ring into which the other writes by RDMA, and a ring of its own from which it sends. A byte at stream
// offset o lies at o modulo the ring's size, so what is sent needs no address but its offset. Three kinds of work
// request, all RDMA writes with an immediate, which wakes the other side and says what came (2 bits of kind, 30 of
// count):
//   data     so many bytes more have been written into your ring
//   credit   your bytes below `consumed` are read, and so many of your notices: two counters, written behind the ring
//   end      nothing more will come
//
// Why nothing is overwritten and no receive is ever missing (a receive is what an immediate uses up; it has no memory):
//   - Data goes out for offsets below credit.consumed + W, W the smaller ring; and for at most N notices beyond
//     credit.notices, which count receives that were posted again.
//   - A side gives credit only when it can raise `consumed` by W/4 or `notices` by N/2. Who has read no credit since c
//     has sent at most W bytes and N notices beyond c, so at most 4 + 2 credits are unread. With the end, and receives
//     that wait to be posted again together (kRepost), N + 7 + kRepost receives are enough.
//   - A sender that waits for room is given credit: whoever waits for it has consumed all of W, or notices of N.
//
// Sent bytes stay in the sender's ring until they are consumed. An RDMA write is read again by the device only while it
// is not acknowledged, and consumed bytes are received bytes: what a late resend carries is thrown away.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/result.h"
#include "transport/ib/path_message.h"
#include "transport/ib/queue_pair.h"
#include "transport/lane.h"

namespace rondo::ib {

struct StreamOptions {
  std::size_t ring_bytes = 0;   // a power of two, a page at least
  QueuePairOptions connection;  // sends, receives and inline_bytes are filled in
};

class Stream {
 public:
  static Result<std::unique_ptr<Stream>> Make(std::shared_ptr<const Device> device, ibv_comp_channel* channel,
                                              const StreamOptions& options);
  // What was written is given a moment to be acknowledged, unless Break was called.
  ~Stream();
  Stream(const Stream&) = delete;

  // What the other end has to be told, to Connect to this one.
  const PathEnd& end() const { return pair_.end(); }
  Landing landing() const;
  Status Connect(const PathEnd& peer, const Landing& landing);
  int mtu_bytes() const { return pair_.mtu_bytes(); }
  std::size_t ring_bytes() const { return ring_bytes_; }

  // As of a lane (transport/lane.h).
  std::size_t Write(std::span<const Bytes> pieces);
  Arrived Peek(std::size_t want);
  void Consume(std::size_t bytes);
  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t consumed() const { return consumed_; }

  // Nothing more is written; tells the other side once everything is on its way.
  void End() { ending_ = true; }
  bool end_arrived() const { return end_arrived_; }
  // Why nothing can be sent or received any more. The other side is the culprit if `peer`.
  struct Failure {
    ErrorCode code;
    std::string message;
    bool peer;
  };
  const std::optional<Failure>& failure() const { return failure_; }

  // Looks what has completed, and goes on with what waited for it.
  void Progress();
  // Asks for an event at the next completion, then looks again: true if something happened since it was last seen.
  bool Arm();
  // Of the channel, for this stream.
  void OnEvent();
  // From now on neither side's device touches memory of this one.
  void Break();

 private:
  enum class Kind : std::uint32_t { kData = 0, kCredit = 1, kEnd = 2 };

  Stream(std::shared_ptr<const Device> device, std::size_t ring_bytes)
      : device_(std::move(device)), ring_bytes_(ring_bytes) {}

  void Pump();
  bool PostData();
  bool GiveCredit();
  bool PostEnd();
  bool Post(ibv_send_wr& request, Kind kind, std::uint32_t count);
  void PostReceives();
  void TakeNotice(std::uint32_t immediate);
  void TakeCredit();
  void FailWith(ErrorCode code, std::string message, bool peer);
  void Linger();

  const std::shared_ptr<const Device> device_;
  const std::size_t ring_bytes_;
  std::optional<RegisteredMemory> in_;   // the ring, then the credit that the other side writes
  std::optional<RegisteredMemory> out_;  // the ring, then the credit that this side gives
  QueuePair pair_;                       // ends before the memory
  Landing peer_;
  std::uint64_t window_bytes_ = 0;  // of the two rings, the smaller
  std::optional<Failure> failure_;
  bool connected_ = false;
  bool broken_ = false;

  // Sending.
  std::uint64_t accepted_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t notices_sent_ = 0;
  std::uint64_t peer_consumed_ = 0;  // by the last credit
  std::uint64_t peer_notices_ = 0;
  std::uint64_t requests_ = 0;           // posted to the send queue
  std::uint64_t requests_signaled_ = 0;  // the last of them that will complete by itself
  std::uint64_t requests_done_ = 0;
  bool ending_ = false;
  bool end_sent_ = false;
  bool write_short_ = false;  // the last Write took less than it was given

  // Receiving.
  std::uint64_t arrived_ = 0;
  std::uint64_t arrived_seen_ = 0;  // by the owner
  std::uint64_t consumed_ = 0;
  std::uint64_t consumed_told_ = 0;
  std::uint64_t notices_ = 0;         // of data, seen
  std::uint64_t notices_posted_ = 0;  // of these, whose receives are posted again
  std::uint64_t notices_told_ = 0;
  std::uint32_t receives_due_ = 0;
  bool end_arrived_ = false;

  // Events.
  bool event_wanted_ = false;
  unsigned events_ = 0;  // not acknowledged to the library yet
  bool news_ = false;
};

}  // namespace rondo::ib
