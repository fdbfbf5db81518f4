// A stream of bytes each way over one reliable connection, which may be replaced by another when it has failed.
//
// Each side has a ring into which the other writes by RDMA, and a ring of its own from which it sends. A byte at stream
// offset o lies at o modulo the ring's size, so what is sent needs no address but its offset. Five kinds of work
// request, all RDMA writes with an immediate, which wakes the other side and says what came (3 bits of kind, 29 of
// count):
//   data     so many bytes more have been written into your ring
//   credit   your bytes below `consumed` are read, so many of your notices (of data, and direct), and so many of your
//            grants: three counters, written behind the ring
//   end      nothing more will come
//   direct   so many bytes more have been written, into the window that you have granted there
//   grants   so many windows more are yours to write into: written behind the credit, in places counted round
//
// Why nothing is overwritten and no receive is ever missing (a receive is what an immediate uses up; it has no memory):
//   - Data goes out for offsets below credit.consumed + W, W the smaller ring, also where it goes into windows; and for
//     at most N notices beyond credit.notices, which count receives that were posted again.
//   - Grants go out for at most G beyond credit.grants, which counts those that were copied out of their places.
//   - A side gives credit only when it can raise `consumed` by W/4, `notices` by N/2 or `grants` by G/2. Who has read
//     no credit since c has sent at most W bytes, N notices and G grants beyond c, so at most 4 + 2 + 2 credits are
//     unread. With the end, and receives that wait to be posted again together (kRepost), N + G + 9 + kRepost receives
//     are enough.
//   - A sender that waits for room is given credit: whoever waits for it has consumed all of W, or notices of N, or
//     grants of G.
//
// AdvertisedBuffers (advertised_buffers.h). What the owner expects in registered memory is granted to the other side,
// which goes over to writing there when it comes to that part of the stream and has heard of it; what it had sent by
// then is in the ring. It never waits for a grant. The kind of each notice says where the bytes are, so both sides need
// not agree on more. Nobody writes into a window once it is consumed, for its last byte has arrived then; nor once the
// queue pair by which it was granted is gone. Grants die with their connection: what has not arrived goes by the ring
// of the next one.
//
// Sent bytes stay in the sender's ring until they are consumed. An RDMA write is read again by the device only while it
// is not acknowledged, and consumed bytes are received bytes: what a late resend carries is thrown away.
//
// What is large and lies in registered memory (registrations.h) is not copied into that ring, but written from where it
// lies: those bytes are lent (zero_copy_sends.h) until the device has been told that they have arrived, and their place
// in the ring stays empty. The last request of a loan asks for a completion.
//
// Memory of a device (transport/device_memory.h) is lent whatever its size, and otherwise not taken: no byte of it is
// read here, neither into the ring nor for a request that would carry it along (inline).
//
// Why nothing is lost or doubled when the connection is replaced: a side says how much has arrived only after its old
// queue pair and registrations are gone, so what it has not counted by then never counts. The other side goes on from
// there: those bytes are not consumed, so they are in its ring still; or they are lent still, since a device
// acknowledges a write only when it has put the receive that tells of it into the queue of completions, and before a
// side says how much has arrived it takes all there is from that queue. Where it could not, and the other side needs
// what was given back, the stream fails.
//
// Thread rule: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/result.h"
#include "transport/ib/advertised_buffers.h"
#include "transport/ib/path_message.h"
#include "transport/ib/queue_pair.h"
#include "transport/ib/registrations.h"
#include "transport/ib/zero_copy_sends.h"
#include "transport/lane.h"

namespace rondo::ib {

class Stream {
 public:
  // `ring_bytes`: a power of two, a page at least.
  static Result<std::unique_ptr<Stream>> Make(std::size_t ring_bytes, std::shared_ptr<const Registrations> registered);
  // What was written is given a moment to be acknowledged, unless Detach or Abandon was called.
  ~Stream();
  Stream(const Stream&) = delete;

  // ---- what carries the bytes ----

  // An end of a connection, to be told to the other side. `key`: of Region::keys, the device's. REQUIRES: detached. Of
  // `options`, sends, receives, pieces and inline_bytes are filled in.
  Status Attach(std::shared_ptr<const Device> device, std::size_t key, ibv_comp_channel* channel,
                QueuePairOptions options);
  const PathEnd& end() const { return link_->pair.end(); }
  RemoteRing remote_ring() const;
  // From now on bytes move. REQUIRES: attached, and resumed if not the first time.
  Status Connect(const PathEnd& peer, const RemoteRing& remote_ring);
  // From now on neither side's device touches memory of this one, and no byte moves; nothing that was counted or
  // acknowledged is lost. Waits for the device, a second at most.
  void Detach();
  // Detach where nothing will be resumed, without waiting: what was lent is the user's again.
  void Abandon();
  // To be told to the other side, when detached.
  Progress TellProgress();
  // The other side's. kProtocol: it cannot be. kConnectionReset: it needs bytes that were given back.
  Status Resume(const Progress& peers);
  // The rest goes by that lane, which outlives this. REQUIRES: detached and resumed.
  void CarryBy(Lane& lane);

  // Null: none.
  const Device* device() const { return link_ ? link_->device.get() : nullptr; }
  int mtu_bytes() const { return link_->pair.mtu_bytes(); }
  std::size_t ring_bytes() const { return ring_bytes_; }

  // ---- the bytes; as of a lane (transport/lane.h) ----

  std::size_t Write(std::span<const Bytes> pieces);
  Arrived Peek(std::size_t want);
  void Consume(std::size_t bytes);
  bool Expect(std::uint64_t stream_offset, MutableBytes destination);
  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t released();
  // Whether memory of a device is among what has not arrived.
  bool holds_device_memory() const { return sends_.any_of_device(); }
  std::uint64_t consumed() const { return consumed_; }

  // Nothing more is written; tells the other side once everything is on its way.
  void End() { ending_ = true; }
  bool end_arrived() const { return end_arrived_; }
  // Why nothing can be sent or received any more; Detach forgets it.
  struct Failure {
    ErrorCode code;
    std::string message;
    bool peer;      // the cause is the other side, or the way to it
    bool mendable;  // by another connection
  };
  const std::optional<Failure>& failure() const { return failure_; }

  // Looks what has completed, and goes on with what waited for it.
  void Look();
  // Asks for an event at the next completion, then looks again: true if something happened since it was last seen.
  bool Arm();
  // Of the channel, for this stream.
  void OnEvent();

 private:
  static constexpr std::uint32_t kSends = 96;
  // That one request gathers: headers, and what follows each in the user's memory.
  static constexpr std::size_t kPieces = 10;
  enum class Kind : std::uint32_t { kData = 0, kCredit = 1, kEnd = 2, kDirect = 3, kGrants = 4 };

  // A connection, and what is counted anew for each.
  struct Link {
    std::shared_ptr<const Device> device;
    std::size_t key = 0;         // of Region::keys
    std::size_t most_bytes = 0;  // of one request
    VerbsHandle<ibv_mr> in;
    VerbsHandle<ibv_mr> out;
    QueuePair pair;  // ends before the registrations
    RemoteRing peer;
    bool connected = false;

    std::uint64_t notices_sent = 0;
    std::uint64_t peer_notices = 0;       // by the last credit
    std::uint64_t requests = 0;           // posted to the send queue
    std::uint64_t requests_signaled = 0;  // the last of them that will complete by itself
    std::uint64_t requests_done = 0;
    std::array<std::uint64_t, kSends> request_end{};  // how far the stream has come with it; by number, counted round

    std::uint64_t notices = 0;         // of data, and direct; seen
    std::uint64_t notices_posted = 0;  // of these, whose receives are posted again
    std::uint64_t notices_credited = 0;
    std::uint64_t grants_sent = 0;
    std::uint64_t peer_grants = 0;  // that it has copied, by the last credit
    Grants grants;                  // that this side was given
    std::uint64_t grants_read = 0;
    std::uint64_t grants_credited = 0;  // of these, in the last credit

    std::uint32_t receives_due = 0;
    bool receives_given_back = false;  // unused: nothing more arrives

    bool event_wanted = false;
    unsigned events = 0;  // not acknowledged to the library yet
  };

  Stream(std::size_t ring_bytes, std::shared_ptr<const Registrations> registered)
      : ring_bytes_(ring_bytes), registered_(std::move(registered)) {}

  // Of what was accepted, bytes that lie side by side.
  struct Piece {
    Bytes bytes;
    const Region* region = nullptr;  // null: of the ring
    bool ends_send = false;
  };
  using Pieces = std::array<Piece, kPieces>;

  void Drop();
  void Drain();
  std::size_t Gather(std::uint64_t from, std::uint64_t until, Pieces& pieces) const;
  void GiveBack(std::uint64_t until);
  std::size_t TakeOfDevice(Bytes bytes);
  void Pump();
  void PumpCarrier();
  bool PostData();
  bool GiveCredit();
  bool SendGrants();
  bool TakeGrants(std::uint32_t count);
  Bytes ArrivedAt(std::uint64_t offset) const;
  bool PostEnd();
  bool Post(ibv_send_wr& request, Kind kind, std::uint32_t count, bool signaled = false);
  void PostReceives();
  void Count();
  void TakeNotice(std::uint32_t immediate);
  void TakeCredit();
  void FailWith(ErrorCode code, std::string message, bool peer, bool mendable);
  void Linger();
  // What is accepted beyond it is posted at once.
  std::size_t most_bytes() const { return link_ ? link_->most_bytes : ring_bytes_; }
  bool moves() const { return link_ && link_->connected && !failure_; }

  const std::size_t ring_bytes_;
  Pages in_;   // the ring, then credit and grants that the other side writes
  Pages out_;  // the ring, then those that this side gives
  std::optional<Link> link_;
  Lane* carrier_ = nullptr;
  std::optional<Failure> failure_;
  std::uint64_t window_bytes_ = 0;  // of the two rings, the smaller; before they are known, 0

  // Sending.
  std::uint64_t accepted_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t peer_consumed_ = 0;  // as far as told
  bool ending_ = false;
  bool end_sent_ = false;
  bool write_short_ = false;  // the last Write took less than it was given
  bool sends_full_ = false;   // so it did, for there were too many loans
  RegistrationsView registered_;
  ZeroCopySends sends_;
  bool given_back_ = false;  // something lent, and the owner has not seen it

  // Receiving.
  std::uint64_t arrived_ = 0;
  std::uint64_t arrived_seen_ = 0;  // by the owner
  std::uint64_t consumed_ = 0;
  std::uint64_t consumed_sent_ = 0;
  bool end_arrived_ = false;
  AdvertisedBuffers advertised_;

  bool news_ = false;  // since Arm last asked
};

}  // namespace rondo::ib
