// A stream of bytes each way over one reliable connection, which may be replaced by another when it has failed.
//
// Each side has a ring into which the other writes by RDMA, and a ring of its own from which it sends. A byte at stream
// offset o is at o modulo the ring's size, so its offset is all the address that it needs. There are five kinds of work
// request, all RDMA writes with an immediate, which wakes the other side and says what has come (3 bits of kind, 29 of
// count):
//   data     that many more bytes are in your ring
//   credit   your bytes below `consumed` are read, so many of your notices (of data, and direct), and so many of your
//            grants: three counters, written behind the ring
//   end      no more bytes will come
//   direct   that many more bytes are in the buffer that you have advertised there
//   grants   that many more buffers are advertised to you: written behind the credit, into a ring of places
//
// Why no byte is overwritten and no receive is ever missing (each immediate uses up a receive, which has no memory):
//   - Data is sent for offsets below credit.consumed + W, W being the smaller ring, also into advertised buffers; and
//     for at most N notices beyond credit.notices, which counts receives that were posted again.
//   - At most G grants are sent beyond credit.grants, which counts those that were copied out of their places.
//   - A side gives credit only when it can raise `consumed` by W/4, `notices` by N/2 or `grants` by G/2. Who has read
//     no credit since c has sent at most W bytes, N notices and G grants beyond c, so at most 4 + 2 + 2 credits are
//     unread. With the end, and receives that wait to be posted again together (kRepost), N + G + 9 + kRepost receives
//     are enough.
//   - A sender that waits for room gets credit, because then the other side has consumed all W bytes, or has N notices
//     or G grants to give back.
//
// Advertised buffers (advertised_buffers.h). Registered memory in which the owner expects bytes is advertised to the
// other side. That side writes there once it knows of the buffer and comes to that part of the stream; bytes that it
// sent before are in the ring. It never waits for a grant. The kind of each notice says where the bytes are, so the
// sides need not agree on more. No one writes into a buffer that is consumed, because its last byte has arrived then,
// nor after the queue pair by which it was advertised is destroyed. Grants end with their connection: bytes that have
// not arrived go through the ring of the next one.
//
// Sent bytes stay in the sender's ring until they are consumed. The device reads them again only while the write is not
// acknowledged. Consumed bytes have been received, so the receiver drops what a late resend carries.
//
// Zero-copy sends (zero_copy_sends.h). A large piece of registered memory (registrations.h) is not copied into that
// ring but sent from the user's memory, which must stay until the device knows that the bytes have arrived. Their place
// in the ring stays empty. The last request of such a send asks for a completion.
//
// Memory of a device (transport/device_memory.h) is sent without a copy, whatever its size, or not at all: the CPU
// reads no byte of it, neither into the ring nor into a request (inline).
//
// Why no byte is lost or doubled when the connection is replaced: a side sends how much has arrived only after its old
// queue pair and registrations are destroyed, so later bytes never count. The other side goes on from there. It still
// has those bytes: they are not consumed, so they are in its ring; or their memory was not given back, because a device
// acknowledges a write only after the receive for it is in the completion queue, and a side empties that queue before
// it sends how much has arrived. If it could not empty the queue, and the other side needs memory that was given back,
// the stream fails.
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
  // `ring_bytes`: a power of two, at least a page.
  static Result<std::unique_ptr<Stream>> Make(std::size_t ring_bytes, std::shared_ptr<const Registrations> registered);
  // Waits a moment for written bytes to be acknowledged, unless Detach or Abandon was called.
  ~Stream();
  Stream(const Stream&) = delete;

  // ---- the connection ----

  // Makes an end of a connection, for the other side. `key`: the device's index in Region::keys. REQUIRES: detached.
  // Sets sends, receives, pieces and inline_bytes of `options`.
  Status Attach(std::shared_ptr<const Device> device, std::size_t key, ibv_comp_channel* channel,
                QueuePairOptions options);
  const PathEnd& end() const { return link_->pair.end(); }
  RemoteRing remote_ring() const;
  // From now on bytes move. REQUIRES: attached, and resumed unless it is the first time.
  Status Connect(const PathEnd& peer, const RemoteRing& remote_ring);
  // From now on neither side's device touches memory of this side, and no byte moves; no byte that was counted or
  // acknowledged is lost. Waits for the device, a second at most.
  void Detach();
  // Like Detach, but nothing can be resumed, and it does not wait: all memory is the user's again.
  void Abandon();
  // How far the stream has come, for the other side, when detached.
  Progress TellProgress();
  // Takes the other side's progress. kProtocol: it is impossible. kConnectionReset: it needs bytes whose memory was
  // given back.
  Status Resume(const Progress& peers);
  // All further bytes go through that lane, which outlives this. REQUIRES: detached and resumed.
  void CarryBy(Lane& lane);

  // Null: none.
  const Device* device() const { return link_ ? link_->device.get() : nullptr; }
  int mtu_bytes() const { return link_->pair.mtu_bytes(); }
  std::size_t ring_bytes() const { return ring_bytes_; }

  // ---- the bytes; as in transport/lane.h ----

  std::size_t Write(std::span<const Bytes> pieces);
  Arrived Peek(std::size_t want);
  void Consume(std::size_t bytes);
  bool Expect(std::uint64_t stream_offset, MutableBytes destination);
  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t released();
  // Whether bytes of a device are among those that have not arrived.
  bool holds_device_memory() const { return sends_.any_of_device(); }
  std::uint64_t consumed() const { return consumed_; }

  // No more bytes are written; sends the end when all bytes were sent.
  void End() { ending_ = true; }
  bool end_arrived() const { return end_arrived_; }
  // Why no byte can be sent or received any more; Detach clears it.
  struct Failure {
    ErrorCode code;
    std::string message;
    bool peer;      // the cause is the other side, or the way to it
    bool mendable;  // another connection can mend it
  };
  const std::optional<Failure>& failure() const { return failure_; }

  // Takes completions, and goes on with the work that waited for them.
  void Look();
  // Asks for an event at the next completion, then looks again. True: something has happened since the owner last
  // looked.
  bool Arm();
  // An event of the channel came for this stream.
  void OnEvent();

 private:
  static constexpr std::uint32_t kSends = 96;
  // The pieces that one request gathers: headers, and behind each the user's memory.
  static constexpr std::size_t kPieces = 10;
  enum class Kind : std::uint32_t { kData = 0, kCredit = 1, kEnd = 2, kDirect = 3, kGrants = 4 };

  // A connection, and the counters that begin with it.
  struct Link {
    std::shared_ptr<const Device> device;
    std::size_t key = 0;         // of Region::keys
    std::size_t most_bytes = 0;  // of one request
    VerbsHandle<ibv_mr> in;
    VerbsHandle<ibv_mr> out;
    QueuePair pair;  // destroyed before the registrations
    RemoteRing peer;
    bool connected = false;

    std::uint64_t notices_sent = 0;
    std::uint64_t peer_notices = 0;       // by the last credit received
    std::uint64_t requests = 0;           // posted to the send queue
    std::uint64_t requests_signaled = 0;  // the last of them that will make a completion
    std::uint64_t requests_done = 0;
    std::array<std::uint64_t, kSends>
        request_end{};  // by number modulo kSends: how far the stream has come with that request

    std::uint64_t notices = 0;         // of data, and direct; received
    std::uint64_t notices_posted = 0;  // those whose receives were posted again
    std::uint64_t notices_credited = 0;
    std::uint64_t grants_sent = 0;
    std::uint64_t peer_grants = 0;  // those that the peer has copied, by the last credit
    Grants grants;                  // those that the peer has sent
    std::uint64_t grants_read = 0;
    std::uint64_t grants_credited = 0;  // those in the last credit sent

    std::uint32_t receives_due = 0;
    bool receives_given_back = false;  // they were not used: no more bytes arrive

    bool event_wanted = false;
    unsigned events = 0;  // taken, but not acknowledged to the library yet
  };

  Stream(std::size_t ring_bytes, std::shared_ptr<const Registrations> registered)
      : ring_bytes_(ring_bytes), registered_(std::move(registered)) {}

  // Accepted bytes that are in one piece.
  struct Piece {
    Bytes bytes;
    const Region* region = nullptr;  // null: they are in the ring
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
  // Accepted bytes beyond this many are posted at once.
  std::size_t most_bytes() const { return link_ ? link_->most_bytes : ring_bytes_; }
  bool moves() const { return link_ && link_->connected && !failure_; }

  const std::size_t ring_bytes_;
  Pages in_;   // the ring, then credit and grants, which the other side writes
  Pages out_;  // the ring, then credit and grants for the other side
  std::optional<Link> link_;
  Lane* carrier_ = nullptr;
  std::optional<Failure> failure_;
  std::uint64_t window_bytes_ = 0;  // the size of the smaller ring; 0: not known yet

  // The sending half.
  std::uint64_t accepted_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t peer_consumed_ = 0;  // as far as this side knows
  bool ending_ = false;
  bool end_sent_ = false;
  bool write_short_ = false;  // the last Write took less than it was given
  bool sends_full_ = false;   // because there were too many zero-copy sends
  RegistrationsView registered_;
  ZeroCopySends sends_;
  bool given_back_ = false;  // memory was given back, and the owner does not know it yet

  // The receiving half.
  std::uint64_t arrived_ = 0;
  std::uint64_t arrived_seen_ = 0;  // when the owner last looked
  std::uint64_t consumed_ = 0;
  std::uint64_t consumed_sent_ = 0;
  bool end_arrived_ = false;
  AdvertisedBuffers advertised_;

  bool news_ = false;  // since the last Arm
};

}  // namespace rondo::ib
