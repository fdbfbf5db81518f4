// A stream of bytes in each direction over one reliable connection. If the connection fails, another can replace it.
//
// Each side has a receive ring, into which the other side writes by RDMA, and a send ring. The byte at stream offset o
// is at position o modulo the ring's size, so the offset alone gives its address. There are five kinds of work request.
// All are RDMA writes with an immediate. The immediate wakes the other side and says what has arrived (3 bits for the
// kind, 29 for a count):
//   data     `count` more bytes are in the receiver's ring
//   credit   three counters, written to memory after the ring: `consumed` (bytes that were read), `notices` (data and
//            direct requests that were processed), `grants` (grants that were copied)
//   end      no more bytes follow
//   direct   `count` more bytes are in the buffer that the receiver has advertised for them
//   grants   `count` more buffers are advertised: their grants are written after the credit, into a ring of slots
//
// Why no byte is overwritten, and why a receive is always posted (each immediate uses up a receive, which has no
// memory). W is the size of the smaller ring, N is kNotices, G is kMaxAdvertised.
//   - Bytes are sent only for offsets below credit.consumed + W, also into advertised buffers. At most N notices are
//     sent beyond credit.notices, which counts receives that were posted again.
//   - At most G grants are sent beyond credit.grants, which counts grants that were copied out of their slots.
//   - A side sends credit only if it raises `consumed` by W/4, `notices` by N/2 or `grants` by G/2. If c is the latest
//     credit that the other side has read, that side has sent at most W bytes, N notices and G grants beyond c. So at
//     most 4 + 2 + 2 credits are unread. One more receive is for the end. Up to kRepost used receives wait until they
//     are posted again together. So N + G + 9 + kRepost receives are enough.
//   - A sender that waits for room gets credit, because the other side consumes all W bytes, or has N notices or G
//     grants to give back.
//
// Advertised buffers (advertised_buffers.h). Registered memory in which the owner expects bytes is advertised to the
// other side. That side writes into the buffer if it has the grant when it sends that part of the stream. Bytes that it
// sent earlier are in the ring. That side never waits for a grant. The kind of each notice says where the bytes are, so
// the sides need not agree on more. A consumed buffer is never written to, because its last byte has arrived. A buffer
// is also never written to after the queue pair by which it was advertised is destroyed. Grants end with their
// connection, so bytes that have not arrived are sent through the ring of the next connection.
//
// Sent bytes stay in the sender's ring until they are consumed. The device may read them again until the write is
// acknowledged. Consumed bytes have been received, so the receiving device drops them if a late packet repeats them.
//
// Zero-copy sends (zero_copy_sends.h). A large piece of registered memory (registrations.h) is not copied into the send
// ring but sent from the user's memory. That memory must stay unchanged until the device has confirmed that the bytes
// have arrived. The positions of these bytes in the ring stay unused. The last request of such a send asks for a
// completion.
//
// Memory of a device (transport/device_memory.h) is always sent without a copy, even if it is small: the CPU copies no
// byte of it into the ring or into a request (inline).
//
// Why no byte is lost or doubled when the connection is replaced. A side reports how many bytes have arrived only after
// its old queue pair and registrations are destroyed, so no byte arrives after the report. The other side continues
// with the next byte. It still has that byte and all later ones: bytes that are not consumed are in its send ring, or
// in user memory that was not given back. Memory is given back only after the device has acknowledged the write. A
// device acknowledges a write only after the receive for it is in the completion queue, and a side empties that queue
// before it reports. If a side could not empty the queue, and the other side needs memory that was given back, the
// stream fails.
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
  // `ring_bytes`: a power of two, and at least a page.
  static Result<std::unique_ptr<Stream>> Make(std::size_t ring_bytes, std::shared_ptr<const Registrations> registered);
  // Waits until written bytes are acknowledged, but at most 100 ms. Does not wait if Detach or Abandon was called.
  ~Stream();
  Stream(const Stream&) = delete;

  // ---- the connection ----

  // Makes this side's end of a connection. `key`: the device's index in Region::keys. Attach overwrites four fields of
  // `options`: `sends`, `receives`, `pieces`, `inline_bytes`. REQUIRES: no connection is attached.
  Status Attach(std::shared_ptr<const Device> device, std::size_t key, ibv_comp_channel* channel,
                QueuePairOptions options);
  const PathEnd& end() const { return link_->pair.end(); }
  RemoteRing remote_ring() const;
  // Connects to the other side. From then on bytes can arrive. REQUIRES: Attach was called. If it is not the first
  // connection, Resume was called as well.
  Status Connect(const PathEnd& peer, const RemoteRing& remote_ring);
  // Begins to send. Call it when the other side has connected, too. Bytes that are sent earlier are lost, and the
  // device sends them again only after a timeout. REQUIRES: Connect was called.
  void Begin();
  // Closes this side's end. After the call neither side's device accesses memory of this side, and no byte moves. No
  // byte that was counted or acknowledged is lost. Waits for the device, at most a second.
  void Detach();
  // Like Detach, but the stream cannot be resumed, and the call does not wait. Afterwards the user may reuse all
  // memory.
  void Abandon();
  // The progress of the stream, for the other side. REQUIRES: no connection is attached.
  Progress TellProgress();
  // Prepares to continue from the other side's progress. kProtocol: that progress is impossible. kConnectionReset: the
  // other side needs bytes whose memory was given back.
  Status Resume(const Progress& peers);
  // Sends and receives all further bytes over `lane`, which must outlive the stream. REQUIRES: Detach and Resume were
  // called.
  void CarryBy(Lane& lane);

  // Null: no connection is attached.
  const Device* device() const { return link_ ? link_->device.get() : nullptr; }
  int mtu_bytes() const { return link_->pair.mtu_bytes(); }
  std::size_t ring_bytes() const { return ring_bytes_; }

  // ---- the bytes: as in transport/lane.h ----

  std::size_t Write(std::span<const Bytes> pieces);
  Arrived Peek(std::size_t want);
  void Consume(std::size_t bytes);
  bool Expect(std::uint64_t stream_offset, MutableBytes destination);
  std::uint64_t accepted() const { return accepted_; }
  std::uint64_t released();
  // Whether some accepted bytes in memory of a device have not arrived yet.
  bool holds_device_memory() const { return sends_.any_of_device(); }
  std::uint64_t consumed() const { return consumed_; }

  // Call it when no more bytes will be written. The stream sends the end after all accepted bytes.
  void End() { ending_ = true; }
  bool end_arrived() const { return end_arrived_; }
  // Why no byte can be sent or received any more. Detach clears the failure.
  struct Failure {
    ErrorCode code;
    std::string message;
    bool peer;      // the cause is the other side, or the network path to it
    bool mendable;  // another connection can continue the stream
  };
  const std::optional<Failure>& failure() const { return failure_; }

  // Takes completions, and continues the work that waited for them.
  void Look();
  // Requests an event for the next completion, then checks once more. True: something has happened since the owner's
  // latest check.
  bool Arm();
  // Call it when the channel has announced an event for this stream.
  void OnEvent();

 private:
  static constexpr std::uint32_t kSends = 96;
  // The largest number of pieces of memory that one request gathers. A frame is two pieces: a header and the user's
  // memory.
  static constexpr std::size_t kPieces = 10;
  enum class Kind : std::uint32_t { kData = 0, kCredit = 1, kEnd = 2, kDirect = 3, kGrants = 4 };

  enum class LinkState : std::uint8_t {
    kAttached,   // only this side's end exists
    kConnected,  // bytes can arrive
    kOpen,       // bytes can arrive and can be sent
  };

  // A connection, and the counters that start at 0 with each connection.
  struct Link {
    std::shared_ptr<const Device> device;
    std::size_t key = 0;         // the device's index in Region::keys
    std::size_t most_bytes = 0;  // the largest number of bytes of one request
    VerbsHandle<ibv_mr> in;
    VerbsHandle<ibv_mr> out;
    QueuePair pair;  // destroyed before the registrations
    RemoteRing peer;
    LinkState state = LinkState::kAttached;

    std::uint64_t notices_sent = 0;
    std::uint64_t peer_notices = 0;       // `notices` of the latest credit received
    std::uint64_t requests = 0;           // the number of requests posted to the send queue
    std::uint64_t requests_signaled = 0;  // the number of the latest request that makes a completion
    std::uint64_t requests_done = 0;
    // Entry n % kSends is for request n. It is the stream offset after that request.
    std::array<std::uint64_t, kSends> request_end{};

    std::uint64_t notices = 0;         // data and direct requests that have arrived
    std::uint64_t notices_posted = 0;  // notices whose receives were posted again
    std::uint64_t notices_credited = 0;
    std::uint64_t grants_sent = 0;
    std::uint64_t peer_grants = 0;  // `grants` of the latest credit received
    Grants grants;                  // received from the peer
    std::uint64_t grants_read = 0;
    std::uint64_t grants_credited = 0;  // `grants` of the latest credit sent

    std::uint32_t receives_due = 0;
    bool receives_given_back = false;  // some receives completed unused, so no more bytes arrive

    bool event_wanted = false;
    unsigned events = 0;  // events that were taken, but not acknowledged to the library yet
  };

  Stream(std::size_t ring_bytes, std::shared_ptr<const Registrations> registered)
      : ring_bytes_(ring_bytes), registered_(std::move(registered)) {}

  // Accepted bytes that are contiguous in memory.
  struct Piece {
    Bytes bytes;
    const Region* region = nullptr;  // null: the bytes are in the ring
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
  // If more accepted bytes than this number wait to be posted, they are posted immediately.
  std::size_t most_bytes() const { return link_ ? link_->most_bytes : ring_bytes_; }
  bool is_connected() const { return link_ && link_->state != LinkState::kAttached; }
  bool moves() const { return link_ && link_->state == LinkState::kOpen && !failure_; }

  const std::size_t ring_bytes_;
  Pages in_;   // the receive ring, then credit and grants; the other side writes all of these
  Pages out_;  // the send ring, then credit and grants for the other side
  std::optional<Link> link_;
  Lane* carrier_ = nullptr;
  std::optional<Failure> failure_;
  std::uint64_t window_bytes_ = 0;  // the size of the smaller ring; 0: unknown, because there was no connection yet

  // The sending half.
  std::uint64_t accepted_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t peer_consumed_ = 0;  // the other side's consumed offset, as far as this side knows
  bool ending_ = false;
  bool end_sent_ = false;
  bool write_short_ = false;  // the latest Write took only a part of its bytes
  bool sends_full_ = false;   // the latest Write was cut short because of too many zero-copy sends
  RegistrationsView registered_;
  ZeroCopySends sends_;
  bool given_back_ = false;  // memory was given back since the owner's latest check

  // The receiving half.
  std::uint64_t arrived_ = 0;
  std::uint64_t arrived_seen_ = 0;  // `arrived_` at the owner's latest check
  std::uint64_t consumed_ = 0;
  std::uint64_t consumed_sent_ = 0;
  bool end_arrived_ = false;
  AdvertisedBuffers advertised_;

  bool news_ = false;  // something has happened since the latest Arm
};

}  // namespace rondo::ib
