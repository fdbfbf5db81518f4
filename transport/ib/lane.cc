#include "transport/ib/lane.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace rondo::ib {
namespace {

// How long to wait for bytes by RDMA after the base lane has ended. The peer has then shut down or died, but bytes that
// it sent earlier may arrive a little later.
constexpr Duration kStragglers = std::chrono::milliseconds(100);
// How often the base lane is checked for the peer's end while the connection works. The check is rare because it takes
// a system call.
constexpr Duration kLookAtBase = std::chrono::milliseconds(1);
// The reason why a lane that has taken device memory cannot continue on the base lane.
constexpr std::string_view kOfDevice =
    "the data to send is in memory of a device, which can be sent only by RDMA or through pinned host memory";

}  // namespace

IbLane::IbLane(LaneContext context, Lane& base, Rank self, std::uint32_t index)
    : UpgradedLane(base, self, index), context_(std::move(context)), registered_(context_.registered) {}

void IbLane::FailFor(const Broken& broken, const std::string& words) {
  FailWith(broken.code, words, broken.peer ? peer() : self_);
}

std::string IbLane::Describe() const {
  const std::string before = attempt_ == 0 ? "" : fmt::format(" (because {})", broken_.why);
  if (is_plain()) return fmt::format("no RDMA: {}", broken_.why);
  if (phase_ != Phase::kRdma) return "agreeing on RDMA";
  const Device& device = *stream_->device();
  return fmt::format("ib {} [{}] {}, MTU {}, {} KiB each way{}", device.port().Name(), device.gid().index,
                     device.gid().ToString(), stream_->mtu_bytes(), stream_->ring_bytes() / 1024, before);
}

LinkEnd IbLane::link() const {
  if (phase_ != Phase::kRdma) return {};
  LinkEnd link = LinkOf(stream_->device()->port(), stream_->device()->gid());
  link.mtu_bytes = stream_->mtu_bytes();
  return link;
}

// ---- agreeing ----

void IbLane::Poll(TimePoint now) {
  if (revoked_ || state_ == LaneState::kFailed) return;
  if (phase_ <= Phase::kAwaiting) Agree();
  Look(now);
}

void IbLane::Agree() {
  if (phase_ == Phase::kBase) {
    if (base_.state() == LaneState::kConnecting) return;
    phase_ = Phase::kAwaiting;
    if (is_initiator()) Offer();
  }
  while (state_ != LaneState::kFailed && (phase_ == Phase::kSending || phase_ == Phase::kAwaiting)) {
    if (phase_ == Phase::kSending) {
      if (!Push(out_)) return;
      OnSent();
    } else {
      const std::optional<PathMessageBytes> received = Next(in_);
      if (!received) return;
      OnReceived(*received);
    }
  }
}

Status IbLane::MakeEnd() {
  if (stream_ == nullptr) {
    RONDO_ASSIGN(stream_, Stream::Make(context_.ring_bytes, context_.registered));
  }
  return stream_->Attach(port().device, port().key, port().channel, context_.connection);
}

void IbLane::Offer() {
  if (const Status made = MakeEnd(); !made)
    return GiveUp({.code = made.error().code(), .why = made.error().message(), .peer = false});
  Say(PathWord::kOffer);
}

void IbLane::Say(PathWord word) {
  PathMessage message;
  message.word = word;
  if (word == PathWord::kPlain || word == PathWord::kBroken) message.why = broken_.why;
  if (word == PathWord::kBroken) {
    if (stream_ != nullptr) message.progress = stream_->TellProgress();
    message.ports = static_cast<std::uint8_t>(context_.ports.size());
    message.your_fault = broken_.peer;
  }
  if (word == PathWord::kOffer || word == PathWord::kAnswer) {
    message.end = stream_->end();
    message.remote_ring = stream_->remote_ring();
  }
  PathMessageBytes bytes{};
  Encode(message, bytes);
  out_.Start(bytes);
  said_ = word;
  phase_ = Phase::kSending;
}

void IbLane::OnSent() {
  phase_ = Phase::kAwaiting;
  switch (said_) {
    case PathWord::kOffer: due_ = PathWord::kAnswer; return;
    case PathWord::kAnswer: due_ = PathWord::kReady; return;
    case PathWord::kReady: return OnConnected();
    case PathWord::kPlain: return GoPlain();
    case PathWord::kBroken:
      due_ = PathWord::kBroken;
      if (peer_progress_) AgreeAgain();
  }
}

void IbLane::OnReceived(const PathMessageBytes& bytes) {
  const auto message = Decode(bytes);
  if (!message) return FailWith(message.error().code(), message.error().message());
  if (message->word == PathWord::kBroken) return OnReceivedBroken(*message);
  if (message->word == PathWord::kPlain && due_ == PathWord::kOffer && !is_initiator()) {
    broken_.why = fmt::format("rank {}: {}", base_.peer(), message->why);
    return GoPlain();
  }
  // The peer sent this message before it received this side's kBroken, so the message no longer counts.
  if (due_ == PathWord::kBroken && message->word != PathWord::kPlain) return;
  if (phase_ == Phase::kRdma || message->word != due_)
    return FailWith(ErrorCode::kProtocol, "the other side sent a setup message for RDMA that was not expected now");
  if (due_ == PathWord::kReady) return OnConnected();
  if (const Status connected = OnReceivedEnd(*message); !connected)
    return GiveUp({.code = connected.error().code(), .why = connected.error().message(), .peer = false});
  Say(is_initiator() ? PathWord::kReady : PathWord::kAnswer);
}

// Connects to the other end. Makes this end first if it does not exist yet.
Status IbLane::OnReceivedEnd(const PathMessage& message) {
  if (!is_initiator()) RONDO_TRY(MakeEnd());
  return stream_->Connect(message.end, message.remote_ring);
}

void IbLane::OnConnected() {
  phase_ = Phase::kRdma;
  state_ = LaneState::kOpen;
  stream_->Begin();
  if (streams_)
    Log(context_.logger, LogLevel::kInfo, "lane {} with {} continues over {}", index_,
        NameOfRank(context_.frame.get(), base_.peer()), stream_->device()->port().Name());
  streams_ = true;
  changed_ = true;
}

// ---- mending ----

void IbLane::GiveUp(Broken broken) {
  broken_ = std::move(broken);
  if (stream_ != nullptr) stream_->Detach();
  ++attempt_;
  Log(context_.logger, LogLevel::kWarning, "lane {} with {}: {}", index_,
      NameOfRank(context_.frame.get(), base_.peer()), broken_.why);
  Say(PathWord::kBroken);
}

void IbLane::OnReceivedBroken(const PathMessage& message) {
  peer_ports_ = message.ports;
  peer_progress_ = message.progress;
  if (due_ == PathWord::kBroken) return AgreeAgain();
  GiveUp({.code = ErrorCode::kConnectionReset,
          .why = fmt::format("rank {}: {}", base_.peer(), message.why),
          .peer = !message.your_fault});
}

// Called when both ends are closed, and each side has the other's progress. Begins the next attempt to connect by RDMA,
// or continues on the base lane.
void IbLane::AgreeAgain() {
  if (stream_ != nullptr) {
    if (const Status resumed = stream_->Resume(*peer_progress_); !resumed)
      return FailWith(resumed.error().code(), resumed.error().message());
  }
  peer_progress_.reset();
  due_ = PathWord::kOffer;
  phase_ = Phase::kAwaiting;
  if (!is_initiator()) return;
  if (attempt_ < std::max(context_.ports.size(), peer_ports_)) return Offer();
  Say(PathWord::kPlain);
}

void IbLane::GoPlain() {
  if (!context_.may_be_plain)
    return FailFor(broken_, streams_
                                ? broken_.why
                                : fmt::format("only RDMA is allowed, but this lane cannot use it: {}", broken_.why));
  if (streams_ && stream_->holds_device_memory())
    return FailFor(broken_, fmt::format("{}; {}", broken_.why, kOfDevice));
  if (streams_) {
    phase_ = Phase::kCarried;
    Log(context_.logger, LogLevel::kWarning, "lane {} with {} continues without RDMA", index_,
        NameOfRank(context_.frame.get(), base_.peer()));
    stream_->CarryBy(base_);
  } else {
    phase_ = Phase::kPlain;
    stream_.reset();
  }
  state_ = LaneState::kOpen;
  changed_ = true;
}

// ---- the lane's state ----

void IbLane::Look(TimePoint now) {
  const LaneState base = base_.state();
  const bool base_over = base == LaneState::kEnded || base == LaneState::kFailed;
  switch (phase_) {
    case Phase::kPlain: state_ = base; return;
    case Phase::kCarried:
      stream_->Look();
      over_ = base_over;
      if (base == LaneState::kFailed && stream_->Peek(1).size() == 0) state_ = base;
      return LookForEnd();
    case Phase::kBase:
    case Phase::kSending:
    case Phase::kAwaiting:
      if (base == LaneState::kFailed) state_ = LaneState::kFailed;
      if (base == LaneState::kEnded)
        FailWith(ErrorCode::kConnectionReset,
                 attempt_ == 0 ? "the other side ended the lane before RDMA was set up"
                               : fmt::format("the other side ended the lane after this error: {}", broken_.why));
      return;
    case Phase::kRdma: break;
  }
  stream_->Look();
  if (base_over) AdoptBaseOver(now);
  if (const auto failure = stream_->failure(); failure && !over_) {
    Broken broken{.code = failure->code, .why = failure->message, .peer = failure->peer};
    if (!failure->mendable || !may_send_ || stream_->end_arrived() || base_over)
      FailFor(broken, broken.why);
    else
      GiveUp(std::move(broken));
  } else if (!base_over && now >= look_at_base_) {
    look_at_base_ = now + kLookAtBase;
    if (const std::optional<PathMessageBytes> received = Next(in_)) OnReceived(*received);
  }
  if (phase_ == Phase::kRdma) return LookForEnd();
  Agree();
}

void IbLane::AdoptBaseOver(TimePoint now) {
  if (!base_over_since_) base_over_since_ = now;
  if (stream_->end_arrived() || stream_->failure() || now - *base_over_since_ >= kStragglers) over_ = true;
}

void IbLane::LookForEnd() {
  if (state_ != LaneState::kOpen || !(over_ || stream_->end_arrived()) || stream_->Peek(1).size() > 0) return;
  state_ = base_.state() == LaneState::kFailed && !stream_->end_arrived() ? LaneState::kFailed : LaneState::kEnded;
}

// ---- sending ----

std::size_t IbLane::Write(std::span<const Bytes> pieces) {
  if (!may_send_ || state_ == LaneState::kFailed) return 0;
  if (is_plain() && registered_.any_of_device() &&
      std::any_of(pieces.begin(), pieces.end(), [&](Bytes piece) { return registered_.IsOfDevice(piece); })) {
    FailWith(ErrorCode::kUnsupported, fmt::format("no RDMA: {}; {}", broken_.why, kOfDevice), self_);
    return 0;
  }
  if (phase_ == Phase::kPlain) return base_.Write(pieces);
  return streams_ ? stream_->Write(pieces) : 0;
}

std::uint64_t IbLane::accepted() const {
  if (streams_) return stream_->accepted();
  return phase_ == Phase::kPlain ? PlainAccepted() : 0;
}

std::uint64_t IbLane::released() const {
  if (phase_ == Phase::kPlain) return PlainReleased();
  return streams_ ? stream_->released() : 0;
}

// ---- receiving ----

Arrived IbLane::Peek(std::size_t want) {
  if (revoked_) return {};
  if (phase_ == Phase::kPlain) return base_.Peek(want);
  return streams_ ? stream_->Peek(want) : Arrived{};
}

void IbLane::Consume(std::size_t bytes) {
  if (phase_ == Phase::kPlain) return base_.Consume(bytes);
  if (bytes == 0) return;
  RONDO_CHECK(streams_, "{} bytes consumed that Peek did not show", bytes);
  stream_->Consume(bytes);
}

std::size_t IbLane::ReadInto(MutableBytes destination) {
  if (revoked_) return 0;
  if (phase_ == Phase::kPlain) return base_.ReadInto(destination);
  if (!streams_) return 0;
  std::size_t done = 0;
  while (done < destination.size()) {
    const Bytes front = stream_->Peek(destination.size() - done).first;
    if (front.empty()) break;
    const std::size_t part = std::min(front.size(), destination.size() - done);
    // If the addresses are equal, the peer has written the bytes into this advertised buffer.
    if (front.data() != destination.data() + done) std::memcpy(destination.data() + done, front.data(), part);
    stream_->Consume(part);
    done += part;
  }
  return done;
}

bool IbLane::Expect(std::uint64_t stream_offset, MutableBytes destination) {
  return phase_ == Phase::kRdma && state_ == LaneState::kOpen && stream_->Expect(stream_offset, destination);
}

bool IbLane::end_arrived() const {
  if (phase_ == Phase::kPlain) return base_.end_arrived();
  if (phase_ == Phase::kCarried) return base_.end_arrived();
  return phase_ == Phase::kRdma && (over_ || stream_->end_arrived());
}

std::uint64_t IbLane::consumed() const {
  if (streams_) return stream_->consumed();
  return phase_ == Phase::kPlain ? PlainConsumed() : 0;
}

void IbLane::Revoke() {
  if (stream_ != nullptr) stream_->Abandon();
  UpgradedLane::Revoke();
}

// ---- sleeping ----

bool IbLane::Arm() {
  look_at_base_ = {};  // after any wake-up the next Poll must check the base lane
  if (revoked_ || state_ == LaneState::kFailed || !streams_) return false;  // the base lane wakes the owner
  if (stream_->Arm()) return true;
  // After the base lane has ended, this lane waits for late bytes, and no event reports the end of that wait. So the
  // owner must not sleep.
  return (base_over_since_ && state_ == LaneState::kOpen) || stream_->failure().has_value();
}

void IbLane::ShutDown() {
  may_send_ = false;
  if (!streams_) return;
  stream_->End();
  stream_->Look();
}

}  // namespace rondo::ib
