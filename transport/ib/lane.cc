#include "transport/ib/lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"

namespace rondo::ib {
namespace {

// The base lane has ended, so the peer is done or dead; what it had sent may come a little later on this way.
constexpr Duration kStragglers = std::chrono::milliseconds(100);

}  // namespace

IbLane::IbLane(LaneContext context, Lane& base, std::uint32_t index)
    : context_(std::move(context)), base_(base), index_(index) {}

const Error* IbLane::failure() const {
  if (state_ != LaneState::kFailed) return nullptr;
  return failure_ ? &*failure_ : base_.failure();
}

// ---- coming to be ----

void IbLane::Poll(TimePoint now) {
  if (revoked_ || state_ == LaneState::kFailed) return;
  if (phase_ < Phase::kRdma) Agree();
  Adopt(now);
}

void IbLane::Agree() {
  if (phase_ == Phase::kBase) {
    if (base_.state() == LaneState::kConnecting) return;
    phase_ = Phase::kHearing;
    if (is_caller()) {
      const Status made = MakeStream();
      if (made)
        Say(PathWord::kOffer);
      else
        SayPlain(made.error());
    }
  }
  while (state_ == LaneState::kConnecting && phase_ < Phase::kRdma) {
    if (phase_ == Phase::kTelling) {
      if (!SendMessage()) return;
      OnTold();
    } else {
      if (!ReadMessage()) return;
      OnHeard();
    }
  }
}

Status IbLane::MakeStream() {
  RONDO_ASSIGN(stream_, Stream::Make(context_.device, context_.channel, context_.stream));
  return {};
}

void IbLane::Say(PathWord word) {
  PathMessage message{.word = word, .end = {}, .landing = {}, .why = {}};
  if (word == PathWord::kPlain) message.why = why_plain_;
  if (word == PathWord::kOffer || word == PathWord::kAnswer) {
    message.end = stream_->end();
    message.landing = stream_->landing();
  }
  Encode(message, out_);
  said_ = word;
  out_sent_ = 0;
  phase_ = Phase::kTelling;
}

void IbLane::SayPlain(const Error& why) {
  why_plain_ = why.message();
  stream_.reset();
  Say(PathWord::kPlain);
}

bool IbLane::SendMessage() {
  while (out_sent_ < out_.size()) {
    const Bytes rest = Bytes(out_).subspan(out_sent_);
    const std::size_t sent = base_.Write(std::span(&rest, 1));
    if (sent == 0) return false;
    out_sent_ += sent;
  }
  agreed_out_ += out_.size();
  return true;
}

bool IbLane::ReadMessage() {
  in_read_ += base_.ReadInto(MutableBytes(in_).subspan(in_read_));
  if (in_read_ < in_.size()) return false;
  in_read_ = 0;
  agreed_in_ += in_.size();
  return true;
}

void IbLane::OnTold() {
  if (said_ == PathWord::kPlain) return BePlain(/*peer_said_so=*/false);
  phase_ = Phase::kHearing;
  if (said_ != PathWord::kReady) return;
  phase_ = Phase::kRdma;
  state_ = LaneState::kOpen;
  changed_ = true;
}

void IbLane::OnHeard() {
  const auto message = Decode(in_);
  if (!message) return FailWith(message.error().code(), message.error().message(), true);
  if (message->word == PathWord::kPlain) {
    why_plain_ = fmt::format("rank {}: {}", base_.peer(), message->why);
    stream_.reset();
    return BePlain(/*peer_said_so=*/true);
  }
  const bool ready = stream_ != nullptr && !is_caller();
  const PathWord due = ready ? PathWord::kReady : is_caller() ? PathWord::kAnswer : PathWord::kOffer;
  if (message->word != due)
    return FailWith(ErrorCode::kProtocol, "a connection by RDMA was agreed on out of order", true);
  if (ready) {
    phase_ = Phase::kRdma;
    state_ = LaneState::kOpen;
    changed_ = true;
    return;
  }
  const auto connect = [&]() -> Status {
    if (!is_caller()) RONDO_TRY(MakeStream());
    return stream_->Connect(message->end, message->landing);
  };
  if (const Status connected = connect(); !connected) return SayPlain(connected.error());
  Say(is_caller() ? PathWord::kReady : PathWord::kAnswer);
}

void IbLane::BePlain(bool peer_said_so) {
  if (!context_.may_be_plain)
    return FailWith(ErrorCode::kUnreachable, fmt::format("no RDMA, and nothing else is allowed: {}", why_plain_),
                    peer_said_so);
  phase_ = Phase::kPlain;
  state_ = LaneState::kOpen;
  changed_ = true;
}

// ---- how it stands ----

void IbLane::Adopt(TimePoint now) {
  const LaneState base = base_.state();
  if (phase_ == Phase::kPlain) {
    state_ = base;
    return;
  }
  if (phase_ != Phase::kRdma) {
    if (base == LaneState::kFailed) state_ = LaneState::kFailed;
    if (base == LaneState::kEnded)
      FailWith(ErrorCode::kConnectionReset, "the other side left before RDMA was agreed on", true);
    return;
  }
  stream_->Progress();
  if (base == LaneState::kEnded || base == LaneState::kFailed) AdoptBaseOver(now);
  if (const auto& failure = stream_->failure(); failure && !over_)
    FailWith(failure->code, failure->message, failure->peer);
  LookForEnd();
}

void IbLane::AdoptBaseOver(TimePoint now) {
  if (!base_over_since_) base_over_since_ = now;
  if (stream_->end_arrived() || stream_->failure() || now - *base_over_since_ >= kStragglers) over_ = true;
}

void IbLane::LookForEnd() {
  if (state_ != LaneState::kOpen || !(over_ || stream_->end_arrived()) || stream_->Peek(1).size() > 0) return;
  state_ = base_.state() == LaneState::kFailed && !stream_->end_arrived() ? LaneState::kFailed : LaneState::kEnded;
}

void IbLane::FailWith(ErrorCode code, const std::string& message, bool peer) {
  if (state_ == LaneState::kFailed) return;
  ErrorDetails details;
  details.code = code;
  details.message = fmt::format("lane {} with rank {}: {}", index_, base_.peer(), message);
  details.rank = context_.self;
  details.culprit = peer ? base_.peer() : context_.self;
  failure_.emplace(std::move(details));
  state_ = LaneState::kFailed;
}

std::string IbLane::Describe() const {
  if (phase_ == Phase::kPlain) return fmt::format("no RDMA: {}", why_plain_);
  if (phase_ != Phase::kRdma) return "agreeing on RDMA";
  return fmt::format("ib {} [{}] {}, MTU {}, {} KiB each way", context_.device->port().Name(),
                     context_.device->gid().index, context_.device->gid().ToString(), stream_->mtu_bytes(),
                     stream_->ring_bytes() / 1024);
}

// ---- sending ----

std::size_t IbLane::Write(std::span<const Bytes> pieces) {
  if (!may_send_ || state_ == LaneState::kFailed) return 0;
  if (phase_ == Phase::kPlain) return base_.Write(pieces);
  return phase_ == Phase::kRdma ? stream_->Write(pieces) : 0;
}

void IbLane::Commit(std::size_t bytes) { RONDO_CHECK(bytes == 0, "this lane reserves no room to commit"); }

std::uint64_t IbLane::accepted() const {
  if (phase_ == Phase::kRdma) return stream_->accepted();
  return phase_ == Phase::kPlain ? base_.accepted() - agreed_out_ : 0;
}

std::uint64_t IbLane::released() const {
  if (phase_ == Phase::kPlain) return std::max(base_.released(), agreed_out_) - agreed_out_;
  return accepted();  // copied
}

// ---- receiving ----

Arrived IbLane::Peek(std::size_t want) {
  if (revoked_) return {};
  if (phase_ == Phase::kPlain) return base_.Peek(want);
  return phase_ == Phase::kRdma ? stream_->Peek(want) : Arrived{};
}

void IbLane::Consume(std::size_t bytes) {
  if (phase_ == Phase::kPlain) return base_.Consume(bytes);
  if (bytes == 0) return;
  RONDO_CHECK(phase_ == Phase::kRdma, "{} bytes consumed that Peek did not show", bytes);
  stream_->Consume(bytes);
}

std::size_t IbLane::ReadInto(MutableBytes destination) {
  if (revoked_) return 0;
  if (phase_ == Phase::kPlain) return base_.ReadInto(destination);
  if (phase_ != Phase::kRdma) return 0;
  std::size_t done = 0;
  while (done < destination.size()) {
    const Bytes front = stream_->Peek(destination.size() - done).first;
    if (front.empty()) break;
    const std::size_t part = std::min(front.size(), destination.size() - done);
    std::memcpy(destination.data() + done, front.data(), part);
    stream_->Consume(part);
    done += part;
  }
  return done;
}

bool IbLane::end_arrived() const {
  if (phase_ == Phase::kPlain) return base_.end_arrived();
  return phase_ == Phase::kRdma && (over_ || stream_->end_arrived());
}

std::uint64_t IbLane::consumed() const {
  if (phase_ == Phase::kRdma) return stream_->consumed();
  return phase_ == Phase::kPlain ? base_.consumed() - agreed_in_ : 0;
}

void IbLane::Revoke() {
  revoked_ = true;
  may_send_ = false;
  if (stream_ != nullptr) stream_->Break();
  if (!IfMemoryAllows([&] { FailWith(ErrorCode::kClosed, "it was given up", false); })) {
    failure_ = Error::MemoryRanOut();
    state_ = LaneState::kFailed;
  }
  base_.Revoke();
}

// ---- sleeping ----

bool IbLane::Arm() {
  if (revoked_ || state_ == LaneState::kFailed || phase_ != Phase::kRdma) return false;  // the base lane tells
  if (stream_->Arm()) return true;
  // Once the base lane is over nobody tells when stragglers are due no more.
  return (base_over_since_ && state_ == LaneState::kOpen) || stream_->failure().has_value();
}

void IbLane::ShutDown() {
  may_send_ = false;
  if (phase_ == Phase::kRdma) {
    stream_->End();
    stream_->Progress();
  }
}

}  // namespace rondo::ib
