#include "transport/ib/stream.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "transport/ib/completions.h"

namespace rondo::ib {
namespace {

// The largest number of outstanding notices. It exceeds the number of messages of kMaxBytes in a bandwidth-delay
// product.
constexpr std::uint32_t kNotices = 64;
constexpr std::uint32_t kRepost = 16;
constexpr std::uint32_t kReceives = kNotices + kMaxAdvertised + 9 + kRepost;
// One of this many requests asks for a completion, because fewer completions cost less.
constexpr std::uint32_t kSignalEvery = 16;
constexpr std::uint32_t kInlineBytes = 256;
// The largest number of bytes of one work request: a message of 64 KiB with its header. With longer requests the other
// side would notice bytes later.
constexpr std::size_t kMaxBytes = 68 * 1024;
// The largest number of bytes of one work request on soft-RoCE. There a packet with only a header takes as much time as
// a full packet, so four messages of 64 KiB share a request.
constexpr std::size_t kMaxBytesBySoftware = 272 * 1024;
// When this many bytes have been copied, they are posted, so that the other side works while this side still copies.
constexpr std::size_t kMaxCopied = 64 * 1024;
// The largest number of bytes of one request into an advertised buffer. The other side copies nothing, so fewer and
// larger notices are better.
constexpr std::size_t kMaxDirectBytes = 256 * 1024;
constexpr int kCountBits = 29;
constexpr std::uint64_t kMaxRingBytes = 1u << 30;
constexpr int kMaxNotices = 1 << 16;
// How long the destructor waits until written bytes are acknowledged.
constexpr int kLingerMs = 100;
// How long to wait until a device returns the receives of a broken queue pair. The limit is far longer than any device
// takes.
constexpr int kDrainMs = 1000;

struct Credit {
  std::uint64_t consumed;
  std::uint64_t notices;
  std::uint64_t grants;
};

// The memory after the ring contains the credit at offset 0, then the grants by number.
constexpr std::size_t kGrantsAt = kLineBytes;
constexpr std::size_t kBehindBytes = kGrantsAt + kMaxAdvertised * sizeof(Grant);
static_assert(sizeof(Credit) <= kGrantsAt);

}  // namespace

Result<std::unique_ptr<Stream>> Stream::Make(std::size_t ring_bytes, std::shared_ptr<const Registrations> registered) {
  std::unique_ptr<Stream> made(new Stream(ring_bytes, std::move(registered)));
  RONDO_ASSIGN(made->in_, Pages::Make(ring_bytes + kBehindBytes));
  RONDO_ASSIGN(made->out_, Pages::Make(ring_bytes + kBehindBytes));
  return made;
}

Stream::~Stream() {
  if (moves()) Linger();
  Abandon();
}

// ---- what carries the bytes ----

Status Stream::Attach(std::shared_ptr<const Device> device, std::size_t key, ibv_comp_channel* channel,
                      QueuePairOptions options) {
  Link link;
  link.device = device;
  link.key = key;
  link.most_bytes = device->port().software ? kMaxBytesBySoftware : kMaxBytes;
  RONDO_ASSIGN(link.in, device->Register(in_.bytes(), true));
  RONDO_ASSIGN(link.out, device->Register(out_.bytes(), false));
  options.sends = kSends;
  options.receives = kReceives;
  options.pieces = kPieces;
  options.inline_bytes = kInlineBytes;
  RONDO_ASSIGN(link.pair, QueuePair::Make(std::move(device), channel, this, options));
  link.receives_due = kReceives;
  link_ = std::move(link);
  PostReceives();
  if (!failure_) return {};
  Error error(failure_->code, failure_->message);
  Drop();
  return tl::unexpected(std::move(error));
}

RemoteRing Stream::remote_ring() const {
  return {.address = reinterpret_cast<std::uintptr_t>(in_.bytes().data()),
          .key = link_->in->rkey,
          .notices = kNotices,
          .ring_bytes = ring_bytes_};
}

Status Stream::Connect(const PathEnd& peer, const RemoteRing& remote_ring) {
  if (!std::has_single_bit(remote_ring.ring_bytes) || remote_ring.ring_bytes < 4096 ||
      remote_ring.ring_bytes > kMaxRingBytes || remote_ring.notices < 2 || remote_ring.notices > kMaxNotices)
    return Fail(ErrorCode::kProtocol, "the other end sent an invalid description of its ring");
  const std::uint64_t window = std::min<std::uint64_t>(ring_bytes_, remote_ring.ring_bytes);
  if (window_bytes_ != 0 && window_bytes_ != window)
    return Fail(ErrorCode::kProtocol, "the other end's ring does not have the same size as before");
  RONDO_TRY(link_->pair.Connect(peer));
  link_->peer = remote_ring;
  window_bytes_ = window;
  link_->state = LinkState::kConnected;
  return {};
}

void Stream::Begin() {
  link_->state = LinkState::kOpen;
  Pump();
}

void Stream::Detach() {
  if (is_connected()) Drain();
  Drop();
}

void Stream::Abandon() {
  Drop();
  sends_.Clear();
  advertised_.Clear();
  carrier_ = nullptr;
}

// Takes the completions of bytes that arrived before the queue pair broke. They precede the first receive that is
// returned unused.
void Stream::Drain() {
  FailWith(ErrorCode::kClosed, "it was given up", false, false);  // so that later completions are ignored
  const bool breaks = link_->pair.Break();
  for (int waited_ms = 0;; ++waited_ms) {
    Count();
    if (!breaks || link_->receives_given_back || link_->receives_due == kReceives || waited_ms == kDrainMs) return;
    poll(nullptr, 0, 1);
  }
}

void Stream::Drop() {
  if (link_) {
    link_->pair.Break();
    // Events must be acknowledged, because destroying the completion queue waits for that.
    if (link_->events > 0) link_->device->verbs().ack_cq_events(link_->pair.completions(), link_->events);
    link_.reset();  // waits for the device, which then no longer writes into advertised buffers
    advertised_.Disconnect();
  }
  failure_.reset();
}

Progress Stream::TellProgress() {
  consumed_sent_ = consumed_;
  return {.arrived = arrived_, .consumed = consumed_};
}

Status Stream::Resume(const Progress& peers) {
  if (peers.consumed < peer_consumed_ || peers.arrived < peers.consumed || peers.arrived > posted_)
    return Fail(ErrorCode::kProtocol,
                "the other side reports impossible progress: {} bytes arrived and {} read, but this rank has sent {}",
                peers.arrived, peers.consumed, posted_);
  if (peers.arrived < sends_.given_back())
    return Fail(ErrorCode::kConnectionReset,
                "the other side received only {} bytes, but the device had reported {} as delivered; the bytes between "
                "are no longer kept here, so they cannot be sent again",
                peers.arrived, sends_.given_back());
  peer_consumed_ = peers.consumed;
  posted_ = peers.arrived;
  GiveBack(posted_);
  return {};
}

void Stream::CarryBy(Lane& lane) {
  carrier_ = &lane;
  PumpCarrier();
}

// The lane that carries the stream (CarryBy) has its own flow control. So bytes that this lane has released make room
// for more bytes of the stream.
void Stream::PumpCarrier() {
  while (posted_ < accepted_) {
    Pieces pieces;
    const std::size_t count = Gather(posted_, accepted_, pieces);
    std::array<Bytes, kPieces> bytes;
    for (std::size_t i = 0; i < count; ++i) bytes[i] = pieces[i].bytes;
    const std::size_t taken = carrier_->Write(std::span(bytes).first(count));
    if (taken == 0) break;
    posted_ += taken;
  }
  // The lane may send without a copy and release bytes later. It also counts bytes that it took before the stream's
  // bytes. Such bytes are counted here as if they were the stream's, which can only delay the release.
  const std::uint64_t free = posted_ - std::min(posted_, carrier_->accepted() - carrier_->released());
  peer_consumed_ = std::max(peer_consumed_, free);
  GiveBack(free);
}

// Waits for acknowledgements, because a destroyed queue pair does not send its remaining bytes (a closed socket does).
void Stream::Linger() {
  if (link_->requests_done == link_->requests && posted_ == accepted_) return;
  Pump();
  ibv_send_wr nothing{};
  nothing.opcode = IBV_WR_RDMA_WRITE;
  nothing.send_flags = IBV_SEND_SIGNALED;
  nothing.wr_id = ++link_->requests;
  link_->request_end[nothing.wr_id % kSends] = posted_;
  nothing.wr.rdma = {link_->peer.address, link_->peer.key};
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(link_->pair.get(), &nothing, &bad) != 0) return;
  for (int waited_ms = 0; link_->requests_done < link_->requests && !failure_ && waited_ms < kLingerMs; ++waited_ms) {
    Look();
    if (link_->requests_done < link_->requests) poll(nullptr, 0, 1);
  }
}

void Stream::FailWith(ErrorCode code, std::string message, bool peer, bool mendable) {
  if (failure_) return;
  failure_ = Failure{code, std::move(message), peer, mendable};
  news_ = true;
}

// ---- sending ----

std::size_t Stream::Write(std::span<const Bytes> pieces) {
  std::size_t done = 0, copied = 0;
  write_short_ = sends_full_ = false;
  if (accepted_ == peer_consumed_ + window_bytes_) Look();
  const bool any_of_device = registered_.any_of_device();
  for (Bytes piece : pieces) {
    if (any_of_device && registered_.IsOfDevice(piece)) {
      const std::size_t taken = TakeOfDevice(piece);
      done += taken;
      if (taken == piece.size()) continue;
      Pump();
      return done;
    }
    const Region* const region = piece.size() < kLeastZeroCopyBytes ? nullptr : registered_.Find(piece);
    while (!piece.empty()) {
      const auto room = static_cast<std::size_t>(peer_consumed_ + window_bytes_ - accepted_);
      std::size_t part = std::min(piece.size(), room);
      if (part == 0) {
        write_short_ = true;
        Pump();
        return done;
      }
      if (region != nullptr && part >= kLeastZeroCopyBytes && !sends_.full()) {
        sends_.Add(accepted_, piece.first(part), *region);
      } else {
        const auto at = static_cast<std::size_t>(accepted_ % ring_bytes_);
        part = std::min({part, ring_bytes_ - at, kMaxCopied});
        std::memcpy(out_.bytes().data() + at, piece.data(), part);
        copied += part;
      }
      accepted_ += part;
      done += part;
      piece = piece.subspan(part);
      if (copied >= kMaxCopied || accepted_ - posted_ >= most_bytes()) {
        Pump();
        copied = 0;
      }
    }
  }
  Pump();
  return done;
}

// Takes as many bytes from the front of `bytes` as there is room for, and returns their number.
std::size_t Stream::TakeOfDevice(Bytes bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size()) {
    const Bytes rest = bytes.subspan(taken);
    const RegistrationsView::Front front = registered_.FindOfDevice(rest);
    RONDO_CHECK(front.region != nullptr, "of {} bytes to send, which are in memory of a device, {} are not registered",
                bytes.size(), rest.size());
    if (sends_.full()) Look();
    const auto room = static_cast<std::size_t>(peer_consumed_ + window_bytes_ - accepted_);
    const std::size_t part = std::min(front.bytes, room);
    write_short_ = part == 0;
    sends_full_ = sends_.full();
    if (write_short_ || sends_full_) break;
    sends_.Add(accepted_, rest.first(part), *front.region);
    accepted_ += part;
    taken += part;
    if (accepted_ - posted_ >= most_bytes()) Pump();
  }
  return taken;
}

std::uint64_t Stream::released() {
  given_back_ = false;
  return sends_.released(accepted_);
}

void Stream::GiveBack(std::uint64_t until) {
  if (sends_.GiveBack(until)) given_back_ = true;
}

// Fills as many pieces as fit, and returns their number.
std::size_t Stream::Gather(std::uint64_t from, std::uint64_t until, Pieces& pieces) const {
  std::size_t count = 0;
  for (; from < until && count < pieces.size(); ++count) {
    const ZeroCopySends::Run run = sends_.At(from, until);
    Piece& piece = pieces[count];
    piece = {.bytes = run.memory, .region = run.region, .ends_send = run.is_end};
    if (run.region == nullptr) {
      const auto at = static_cast<std::size_t>(from % ring_bytes_);
      piece.bytes = out_.bytes().subspan(at, std::min(static_cast<std::size_t>(run.end - from), ring_bytes_ - at));
    }
    from += piece.bytes.size();
  }
  return count;
}

void Stream::Pump() {
  if (carrier_ != nullptr) return PumpCarrier();
  if (!moves()) return;
  while (GiveCredit() || SendGrants() || PostData() || PostEnd()) {
  }
}

bool Stream::PostData() {
  if (posted_ == accepted_ || link_->notices_sent - link_->peer_notices >= link_->peer.notices) return false;
  const RemoteRing& peer = link_->peer;
  std::uint64_t until = accepted_;
  const Grant* const grant = link_->grants.At(posted_, until);
  until = std::min(until, posted_ + (grant == nullptr ? link_->most_bytes : kMaxDirectBytes));
  const std::uint64_t theirs = posted_ % peer.ring_bytes;
  if (grant == nullptr) until = std::min(until, posted_ + peer.ring_bytes - theirs);
  Pieces pieces;
  const std::size_t count = Gather(posted_, until, pieces);
  std::array<ibv_sge, kPieces> gathered;
  std::uint32_t bytes = 0;
  bool ends_send = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [piece, region, ends] = pieces[i];
    const auto length = static_cast<std::uint32_t>(piece.size());
    gathered[i] = {.addr = reinterpret_cast<std::uintptr_t>(piece.data()),
                   .length = length,
                   .lkey = region == nullptr ? link_->out->lkey : region->keys[link_->key]};
    bytes += length;
    ends_send = ends_send || ends;
  }
  ibv_send_wr request{};
  request.sg_list = gathered.data();
  request.num_sge = static_cast<int>(count);
  if (grant == nullptr)
    request.wr.rdma = {peer.address + theirs, peer.key};
  else
    request.wr.rdma = {grant->address + (posted_ - grant->begin), grant->key};
  if (!Post(request, grant == nullptr ? Kind::kData : Kind::kDirect, bytes, ends_send)) return false;
  posted_ += bytes;
  ++link_->notices_sent;
  return true;
}

bool Stream::GiveCredit() {
  if (consumed_ - consumed_sent_ < window_bytes_ / 4 &&
      link_->notices_posted - link_->notices_credited < kNotices / 2 &&
      link_->grants_read - link_->grants_credited < kMaxAdvertised / 2)
    return false;
  // The device may still read the previous credit from this memory. Credit only grows, so both an old and a new number
  // are correct.
  auto& credit = *reinterpret_cast<Credit*>(out_.bytes().data() + ring_bytes_);
  std::atomic_ref(credit.consumed).store(consumed_, std::memory_order_relaxed);
  std::atomic_ref(credit.notices).store(link_->notices_posted, std::memory_order_relaxed);
  std::atomic_ref(credit.grants).store(link_->grants_read, std::memory_order_relaxed);
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(&credit), .length = sizeof credit, .lkey = link_->out->lkey};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.wr.rdma = {link_->peer.address + link_->peer.ring_bytes, link_->peer.key};
  if (!Post(request, Kind::kCredit, 0)) return false;
  consumed_sent_ = consumed_;
  link_->notices_credited = link_->notices_posted;
  link_->grants_credited = link_->grants_read;
  return true;
}

// Sends grants by one request: at most as many as there are contiguous free slots in the ring.
bool Stream::SendGrants() {
  if (advertised_.empty()) return false;
  const std::uint64_t place = link_->grants_sent % kMaxAdvertised;
  const std::uint64_t room = kMaxAdvertised - std::max(place, link_->grants_sent - link_->peer_grants);
  const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(advertised_.Unadvertised(arrived_), room));
  if (count == 0) return false;
  const std::size_t at = kGrantsAt + place * sizeof(Grant);
  std::byte* const places = out_.bytes().data() + ring_bytes_ + at;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Grant grant = advertised_.UnadvertisedAt(i);
    std::memcpy(places + i * sizeof grant, &grant, sizeof grant);
  }
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(places),
                .length = static_cast<std::uint32_t>(count * sizeof(Grant)),
                .lkey = link_->out->lkey};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.wr.rdma = {link_->peer.address + link_->peer.ring_bytes + at, link_->peer.key};
  if (!Post(request, Kind::kGrants, count)) return false;
  advertised_.OnAdvertised(count);
  link_->grants_sent += count;
  return true;
}

bool Stream::PostEnd() {
  if (!ending_ || end_sent_ || posted_ < accepted_) return false;
  ibv_send_wr request{};
  request.wr.rdma = {link_->peer.address, link_->peer.key};
  end_sent_ = Post(request, Kind::kEnd, 0);
  return end_sent_;
}

bool Stream::Post(ibv_send_wr& request, Kind kind, std::uint32_t count, bool signaled) {
  if (link_->requests - link_->requests_done >= kSends - 1) return false;  // keeps one request free for Linger
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = htonl(static_cast<std::uint32_t>(kind) << kCountBits | count);
  request.wr_id = link_->requests + 1;
  if (signaled || request.wr_id - link_->requests_signaled >= kSignalEvery) request.send_flags |= IBV_SEND_SIGNALED;
  // Only bytes from the ring may be inline, because the CPU reads inline bytes.
  if (request.num_sge == 1 && request.sg_list->length <= link_->pair.inline_bytes() &&
      request.sg_list->lkey == link_->out->lkey)
    request.send_flags |= IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  if (const int failed = ibv_post_send(link_->pair.get(), &request, &bad); failed != 0) {
    FailWith(ErrorCode::kResource,
             fmt::format("{} refused a work request: {}", link_->device->port().Name(), std::strerror(failed)), false,
             true);
    return false;
  }
  ++link_->requests;
  const bool of_stream = kind == Kind::kData || kind == Kind::kDirect;
  link_->request_end[link_->requests % kSends] = posted_ + (of_stream ? count : 0);
  if ((request.send_flags & IBV_SEND_SIGNALED) != 0) link_->requests_signaled = link_->requests;
  return true;
}

// ---- receiving ----

Arrived Stream::Peek(std::size_t want) {
  if (arrived_ - consumed_ < want)
    Look();
  else if (!advertised_.empty())
    Pump();  // sends grants, because the owner may have advertised a buffer
  arrived_seen_ = arrived_;
  const Bytes first = ArrivedAt(consumed_);
  return {first, ArrivedAt(consumed_ + first.size())};
}

// Returns the arrived bytes from `offset` on that are contiguous in memory.
Bytes Stream::ArrivedAt(std::uint64_t offset) const {
  if (offset == arrived_) return {};
  const AdvertisedBuffers::Run run = advertised_.At(offset, arrived_);
  if (!run.direct.empty()) return run.direct;
  const auto at = static_cast<std::size_t>(offset % ring_bytes_);
  return in_.bytes().subspan(at, std::min(static_cast<std::size_t>(run.end - offset), ring_bytes_ - at));
}

void Stream::Consume(std::size_t bytes) {
  RONDO_CHECK(bytes <= arrived_ - consumed_, "{} bytes consumed that Peek did not show", bytes);
  consumed_ += bytes;
  advertised_.Consume(consumed_);
  Pump();
}

// Grants are not sent at once, because several calls of Expect usually follow each other. They are sent with the next
// request, or before the owner sleeps.
bool Stream::Expect(std::uint64_t stream_offset, MutableBytes destination) {
  if (destination.empty()) return true;
  if (!moves() || advertised_.full()) return false;
  const Region* const region = registered_.Find(destination);
  if (region == nullptr || region->remote_keys.empty()) return false;
  RONDO_CHECK(stream_offset >= consumed_, "a buffer at stream offset {}, {} are consumed", stream_offset, consumed_);
  advertised_.Add(stream_offset, destination, region->remote_keys[link_->key]);
  return true;
}

void Stream::PostReceives() {
  std::array<ibv_recv_wr, kReceives> requests;
  for (std::uint32_t i = 0; i < link_->receives_due; ++i) {
    requests[i] = {};
    requests[i].next = i + 1 < link_->receives_due ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  if (const int failed = ibv_post_recv(link_->pair.get(), requests.data(), &bad); failed != 0)
    return FailWith(
        ErrorCode::kResource,
        fmt::format("{} refused a receive request: {}", link_->device->port().Name(), std::strerror(failed)), false,
        true);
  link_->receives_due = 0;
  link_->notices_posted = link_->notices;
}

void Stream::TakeNotice(std::uint32_t immediate) {
  ++link_->receives_due;
  const std::uint32_t count = immediate & ((1u << kCountBits) - 1);
  const auto kind = static_cast<Kind>(immediate >> kCountBits);
  switch (kind) {
    case Kind::kData:
    case Kind::kDirect:
      ++link_->notices;
      if (count > consumed_ + ring_bytes_ - arrived_ || end_arrived_) break;
      if (kind == Kind::kDirect && !advertised_.Take(arrived_, count)) break;
      arrived_ += count;
      return;
    case Kind::kCredit: return TakeCredit();
    case Kind::kEnd: end_arrived_ = true; return;
    case Kind::kGrants:
      if (TakeGrants(count)) return;
  }
  FailWith(ErrorCode::kProtocol, "the other side sent counters that are out of bounds", true, false);
}

bool Stream::TakeGrants(std::uint32_t count) {
  const std::byte* const places = in_.bytes().data() + ring_bytes_ + kGrantsAt;
  for (; count > 0; --count) {
    Grant grant;
    std::memcpy(&grant, places + link_->grants_read % kMaxAdvertised * sizeof grant, sizeof grant);
    if (!link_->grants.Add(grant, posted_)) return false;
    ++link_->grants_read;
  }
  return true;
}

void Stream::TakeCredit() {
  auto& credit = *reinterpret_cast<Credit*>(in_.bytes().data() + ring_bytes_);
  const std::uint64_t consumed = std::atomic_ref(credit.consumed).load(std::memory_order_acquire);
  const std::uint64_t notices = std::atomic_ref(credit.notices).load(std::memory_order_acquire);
  const std::uint64_t grants = std::atomic_ref(credit.grants).load(std::memory_order_acquire);
  if (consumed < peer_consumed_ || consumed > posted_ || notices < link_->peer_notices ||
      notices > link_->notices_sent || grants < link_->peer_grants || grants > link_->grants_sent)
    return FailWith(ErrorCode::kProtocol, "the other side sent counters that are out of bounds", true, false);
  peer_consumed_ = consumed;
  link_->peer_notices = notices;
  link_->peer_grants = grants;
}

// ---- completions ----

void Stream::Count() {
  std::array<ibv_wc, kRepost> done;
  for (int count = kRepost; count == static_cast<int>(kRepost);) {
    count = ibv_poll_cq(link_->pair.completions(), kRepost, done.data());
    if (count < 0) return FailWith(ErrorCode::kInternal, "the completion queue cannot be read", false, true);
    for (const ibv_wc& one : std::span(done).first(static_cast<std::size_t>(count))) {
      if (one.status != IBV_WC_SUCCESS) {
        if (one.wr_id == 0) link_->receives_given_back = true;
        if (one.status == IBV_WC_WR_FLUSH_ERR && failure_) continue;
        const CompletionWords words = Words(one.status);
        const std::string last_fault = failure_ ? "" : link_->device->LastFault();
        FailWith(
            ErrorCode::kConnectionReset,
            fmt::format("RDMA by {}: {} (vendor code {}): {}", link_->device->port().Name(), words.name, one.vendor_err,
                        last_fault.empty() ? std::string(words.remedy) : "the device reports: " + last_fault),
            words.peer && last_fault.empty(), true);
      } else if (one.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        TakeNotice(ntohl(one.imm_data));
      } else {
        link_->requests_done = std::max(link_->requests_done, one.wr_id);
        GiveBack(link_->request_end[one.wr_id % kSends]);
      }
    }
    if (count > 0) news_ = true;
    if (link_->receives_due >= kRepost && !failure_) PostReceives();
  }
}

void Stream::Look() {
  if (carrier_ != nullptr) {
    // At most two pieces, because the ring may wrap.
    for (int part = 0; part < 2; ++part) {
      const auto at = static_cast<std::size_t>(arrived_ % ring_bytes_);
      const auto room = static_cast<std::size_t>(consumed_ + ring_bytes_ - arrived_);
      const std::size_t read = carrier_->ReadInto(in_.bytes().subspan(at, std::min(room, ring_bytes_ - at)));
      arrived_ += read;
      if (read < ring_bytes_ - at) break;
    }
  } else if (is_connected()) {
    Count();
  }
  Pump();
}

bool Stream::Arm() {
  news_ = false;
  if (moves() && !link_->event_wanted) link_->event_wanted = ibv_req_notify_cq(link_->pair.completions(), 0) == 0;
  Look();
  // Returns true once if bytes arrived while the owner did other work.
  const bool unseen = arrived_ != arrived_seen_;
  arrived_seen_ = arrived_;
  const bool had_no_place = std::exchange(sends_full_, false) && !sends_.full();
  const bool room = (std::exchange(write_short_, false) && accepted_ < peer_consumed_ + window_bytes_) || had_no_place;
  const bool given_back = std::exchange(given_back_, false);
  return news_ || unseen || room || given_back || (moves() && !link_->event_wanted);
}

void Stream::OnEvent() {
  if (!link_) return;
  link_->event_wanted = false;
  ++link_->events;
}

}  // namespace rondo::ib
