#include "transport/ib/stream.h"

#include <arpa/inet.h>
#include <fmt/format.h>
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

// Of data, outstanding: more than a bandwidth-delay product has messages of kMostBytes.
constexpr std::uint32_t kNotices = 64;
constexpr std::uint32_t kRepost = 16;
constexpr std::uint32_t kReceives = kNotices + 7 + kRepost;
constexpr std::uint32_t kSends = 96;
// A completion is asked for so often; fewer cost less.
constexpr std::uint32_t kSignalEvery = 16;
constexpr std::uint32_t kInlineBytes = 256;
// Of one work request, so that the other side works while this one still copies.
constexpr std::size_t kMostBytes = 64 * 1024;
constexpr int kCountBits = 30;
constexpr std::uint64_t kMostRingBytes = 1u << 30;
constexpr int kMostNotices = 1 << 16;
// How long what was written may take to be acknowledged when nobody waits for it any more.
constexpr int kLingerMs = 100;

struct Credit {
  std::uint64_t consumed;
  std::uint64_t notices;
};

}  // namespace

Result<std::unique_ptr<Stream>> Stream::Make(std::shared_ptr<const Device> device, ibv_comp_channel* channel,
                                             const StreamOptions& options) {
  std::unique_ptr<Stream> made(new Stream(device, options.ring_bytes));
  RONDO_ASSIGN(made->in_, device->Allocate(options.ring_bytes + sizeof(Credit), true));
  RONDO_ASSIGN(made->out_, device->Allocate(options.ring_bytes + sizeof(Credit), false));
  QueuePairOptions connection = options.connection;
  connection.sends = kSends;
  connection.receives = kReceives;
  connection.inline_bytes = kInlineBytes;
  RONDO_ASSIGN(made->pair_, QueuePair::Make(std::move(device), channel, made.get(), connection));
  made->receives_due_ = kReceives;
  made->PostReceives();
  if (made->failure_) return Fail(made->failure_->code, "{}", made->failure_->message);
  return made;
}

Stream::~Stream() {
  if (connected_ && !broken_ && !failure_) Linger();
  if (events_ > 0) device_->verbs().ack_cq_events(pair_.completions(), events_);  // destroying would wait for it
}

// A socket's bytes outlive their socket, a queue pair's do not.
void Stream::Linger() {
  if (requests_done_ == requests_ && posted_ == accepted_) return;
  Pump();
  ibv_send_wr nothing{};
  nothing.opcode = IBV_WR_RDMA_WRITE;
  nothing.send_flags = IBV_SEND_SIGNALED;
  nothing.wr_id = ++requests_;
  nothing.wr.rdma = {peer_.address, peer_.key};
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(pair_.get(), &nothing, &bad) != 0) return;
  for (int waited_ms = 0; requests_done_ < requests_ && !failure_ && waited_ms < kLingerMs; ++waited_ms) {
    Progress();
    if (requests_done_ < requests_) poll(nullptr, 0, 1);
  }
}

Landing Stream::landing() const {
  return {.address = reinterpret_cast<std::uintptr_t>(in_->bytes().data()),
          .key = in_->remote_key(),
          .notices = kNotices,
          .ring_bytes = ring_bytes_};
}

Status Stream::Connect(const PathEnd& peer, const Landing& landing) {
  if (!std::has_single_bit(landing.ring_bytes) || landing.ring_bytes < 4096 || landing.ring_bytes > kMostRingBytes ||
      landing.notices < 2 || landing.notices > kMostNotices)
    return Fail(ErrorCode::kProtocol, "the other end's ring makes no sense");
  RONDO_TRY(pair_.Connect(peer));
  peer_ = landing;
  window_bytes_ = std::min<std::uint64_t>(ring_bytes_, landing.ring_bytes);
  connected_ = true;
  return {};
}

void Stream::FailWith(ErrorCode code, std::string message, bool peer) {
  if (failure_) return;
  failure_ = Failure{code, std::move(message), peer};
  news_ = true;
}

// ---- sending ----

std::size_t Stream::Write(std::span<const Bytes> pieces) {
  std::size_t done = 0;
  write_short_ = false;
  if (accepted_ == peer_consumed_ + window_bytes_) Progress();
  for (Bytes piece : pieces) {
    while (!piece.empty()) {
      const auto room = static_cast<std::size_t>(peer_consumed_ + window_bytes_ - accepted_);
      const auto at = static_cast<std::size_t>(accepted_ % ring_bytes_);
      const std::size_t part = std::min({piece.size(), room, ring_bytes_ - at, kMostBytes});
      if (part == 0) {
        write_short_ = true;
        Pump();
        return done;
      }
      std::memcpy(out_->bytes().data() + at, piece.data(), part);
      accepted_ += part;
      done += part;
      piece = piece.subspan(part);
      if (accepted_ - posted_ >= kMostBytes) Pump();
    }
  }
  Pump();
  return done;
}

void Stream::Pump() {
  if (!connected_ || broken_ || failure_) return;
  while (GiveCredit() || PostData() || PostEnd()) {
  }
}

bool Stream::PostData() {
  if (posted_ == accepted_ || notices_sent_ - peer_notices_ >= peer_.notices) return false;
  const auto own = static_cast<std::size_t>(posted_ % ring_bytes_);
  const auto theirs = static_cast<std::size_t>(posted_ % peer_.ring_bytes);
  const auto bytes = static_cast<std::size_t>(
      std::min<std::uint64_t>({accepted_ - posted_, ring_bytes_ - own, peer_.ring_bytes - theirs, kMostBytes}));
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(out_->bytes().data() + own),
                .length = static_cast<std::uint32_t>(bytes),
                .lkey = out_->local_key()};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.wr.rdma = {peer_.address + theirs, peer_.key};
  if (!Post(request, Kind::kData, static_cast<std::uint32_t>(bytes))) return false;
  posted_ += bytes;
  ++notices_sent_;
  return true;
}

bool Stream::GiveCredit() {
  if (consumed_ - consumed_told_ < window_bytes_ / 4 && notices_posted_ - notices_told_ < kNotices / 2) return false;
  // May still be on its way from the last time: both numbers only grow, and either is true.
  auto& credit = *reinterpret_cast<Credit*>(out_->bytes().data() + ring_bytes_);
  std::atomic_ref(credit.consumed).store(consumed_, std::memory_order_relaxed);
  std::atomic_ref(credit.notices).store(notices_posted_, std::memory_order_relaxed);
  ibv_sge piece{.addr = reinterpret_cast<std::uintptr_t>(&credit), .length = sizeof credit, .lkey = out_->local_key()};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.wr.rdma = {peer_.address + peer_.ring_bytes, peer_.key};
  if (!Post(request, Kind::kCredit, 0)) return false;
  consumed_told_ = consumed_;
  notices_told_ = notices_posted_;
  return true;
}

bool Stream::PostEnd() {
  if (!ending_ || end_sent_ || posted_ < accepted_) return false;
  ibv_send_wr request{};
  request.wr.rdma = {peer_.address, peer_.key};
  end_sent_ = Post(request, Kind::kEnd, 0);
  return end_sent_;
}

bool Stream::Post(ibv_send_wr& request, Kind kind, std::uint32_t count) {
  if (requests_ - requests_done_ >= kSends - 1) return false;  // one is left for who lingers
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.imm_data = htonl(static_cast<std::uint32_t>(kind) << kCountBits | count);
  request.wr_id = requests_ + 1;
  if (request.wr_id - requests_signaled_ >= kSignalEvery) request.send_flags |= IBV_SEND_SIGNALED;
  if (request.num_sge == 1 && request.sg_list->length <= pair_.inline_bytes()) request.send_flags |= IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  if (const int failed = ibv_post_send(pair_.get(), &request, &bad); failed != 0) {
    FailWith(ErrorCode::kResource,
             fmt::format("{} takes no work request: {}", device_->port().Name(), std::strerror(failed)), false);
    return false;
  }
  ++requests_;
  if ((request.send_flags & IBV_SEND_SIGNALED) != 0) requests_signaled_ = requests_;
  return true;
}

// ---- receiving ----

Arrived Stream::Peek(std::size_t want) {
  if (arrived_ - consumed_ < want) Progress();
  arrived_seen_ = arrived_;
  const auto bytes = static_cast<std::size_t>(arrived_ - consumed_);
  const auto at = static_cast<std::size_t>(consumed_ % ring_bytes_);
  const std::size_t first = std::min(bytes, ring_bytes_ - at);
  const MutableBytes ring = in_->bytes();
  return {ring.subspan(at, first), ring.first(bytes - first)};
}

void Stream::Consume(std::size_t bytes) {
  RONDO_CHECK(bytes <= arrived_ - consumed_, "{} bytes consumed that Peek did not show", bytes);
  consumed_ += bytes;
  Pump();
}

void Stream::PostReceives() {
  std::array<ibv_recv_wr, kReceives> requests;
  for (std::uint32_t i = 0; i < receives_due_; ++i) {
    requests[i] = {};
    requests[i].next = i + 1 < receives_due_ ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  if (const int failed = ibv_post_recv(pair_.get(), requests.data(), &bad); failed != 0)
    return FailWith(ErrorCode::kResource,
                    fmt::format("{} takes no receive: {}", device_->port().Name(), std::strerror(failed)), false);
  receives_due_ = 0;
  notices_posted_ = notices_;
}

void Stream::TakeNotice(std::uint32_t immediate) {
  ++receives_due_;
  const std::uint32_t count = immediate & ((1u << kCountBits) - 1);
  switch (static_cast<Kind>(immediate >> kCountBits)) {
    case Kind::kData:
      ++notices_;
      if (count > consumed_ + ring_bytes_ - arrived_ || end_arrived_) break;
      arrived_ += count;
      return;
    case Kind::kCredit: return TakeCredit();
    case Kind::kEnd: end_arrived_ = true; return;
  }
  FailWith(ErrorCode::kProtocol, "the other side's counters are out of bounds", true);
}

void Stream::TakeCredit() {
  auto& credit = *reinterpret_cast<Credit*>(in_->bytes().data() + ring_bytes_);
  const std::uint64_t consumed = std::atomic_ref(credit.consumed).load(std::memory_order_acquire);
  const std::uint64_t notices = std::atomic_ref(credit.notices).load(std::memory_order_acquire);
  if (consumed < peer_consumed_ || consumed > posted_ || notices < peer_notices_ || notices > notices_sent_)
    return FailWith(ErrorCode::kProtocol, "the other side's counters are out of bounds", true);
  peer_consumed_ = consumed;
  peer_notices_ = notices;
}

// ---- completions ----

void Stream::Progress() {
  if (broken_) return;
  std::array<ibv_wc, kRepost> done;
  for (int count = kRepost; count == static_cast<int>(kRepost);) {
    count = ibv_poll_cq(pair_.completions(), kRepost, done.data());
    if (count < 0) return FailWith(ErrorCode::kInternal, "the completion queue cannot be read", false);
    for (const ibv_wc& one : std::span(done).first(static_cast<std::size_t>(count))) {
      if (one.status != IBV_WC_SUCCESS) {
        if (one.status == IBV_WC_WR_FLUSH_ERR && failure_) continue;
        const CompletionWords words = Words(one.status);
        FailWith(ErrorCode::kConnectionReset,
                 fmt::format("RDMA by {}: {} (vendor code {}): {}", device_->port().Name(), words.name, one.vendor_err,
                             words.remedy),
                 words.peer);
      } else if (one.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        TakeNotice(ntohl(one.imm_data));
      } else {
        requests_done_ = std::max(requests_done_, one.wr_id);
      }
    }
    if (count > 0) news_ = true;
    if (receives_due_ >= kRepost && !failure_) PostReceives();
  }
  Pump();
}

bool Stream::Arm() {
  if (broken_) return false;
  news_ = false;
  if (!event_wanted_) event_wanted_ = ibv_req_notify_cq(pair_.completions(), 0) == 0;
  Progress();
  // What came while the owner looked elsewhere; told once.
  const bool unseen = arrived_ != arrived_seen_;
  arrived_seen_ = arrived_;
  const bool room = std::exchange(write_short_, false) && accepted_ < peer_consumed_ + window_bytes_;
  return news_ || unseen || room || !event_wanted_;
}

void Stream::OnEvent() {
  event_wanted_ = false;
  ++events_;
}

void Stream::Break() {
  if (std::exchange(broken_, true)) return;
  pair_.Break();
}

}  // namespace rondo::ib
