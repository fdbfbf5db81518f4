#include "transport/shm/lane.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "transport/shm/fd_passing.h"

namespace rondo::shm {

ShmLane::ShmLane(LaneContext context, Lane& base, Rank self, std::uint32_t index)
    : UpgradedLane(base, self, index), context_(std::move(context)) {}

// ---- agreeing on the path ----

void ShmLane::Poll(TimePoint) {
  if (revoked_ || state_ == LaneState::kFailed) return;
  if (phase_ < Phase::kShared) Agree();
  AdoptBase();
}

void ShmLane::Agree() {
  if (phase_ == Phase::kBase) {
    if (base_.state() == LaneState::kConnecting) return;
    phase_ = is_initiator() ? Phase::kRequesting : Phase::kAwaiting;
  }
  if (phase_ == Phase::kRequesting && RequestPeer()) phase_ = Phase::kSending;
  if (phase_ == Phase::kSending && is_initiator() && Push(out_)) phase_ = Phase::kAwaiting;
  if (phase_ == Phase::kAwaiting) {
    const std::optional<Verdict> theirs = Next(in_);
    if (!theirs) return;
    if (theirs->magic != Verdict::kMagic)
      return FailWith(ErrorCode::kProtocol, "expected a setup message for shared memory, got another message");
    if (is_initiator()) {
      // The other end may use shared memory already, and no message can inform it that this end does not. So the lane
      // fails.
      if (const Status taken = TakeAnswer(*theirs); !taken)
        return FailWith(taken.error().code(), taken.error().message());
      return Settle(0);
    }
    if (const Status answered = AnswerRequest(*theirs); !answered) why_plain_ = answered.error().message();
    context_.step("lane answered");
    SendVerdict(why_plain_.empty() ? Verdict::Kind::kShared : Verdict::Kind::kPlain);
    phase_ = Phase::kSending;
  }
  if (phase_ == Phase::kSending && !is_initiator() && Push(out_)) Settle(1);
}

bool ShmLane::RequestPeer() {
  const Status left = LeaveRequest();
  if (left && !connection_) return false;
  if (!left) why_plain_ = left.error().message();
  context_.step("lane called");
  SendVerdict(left ? Verdict::Kind::kShared : Verdict::Kind::kPlain);
  return true;
}

// Success without a connection means that the peer's queue is full. Then the lane tries again in a later Poll.
Status ShmLane::LeaveRequest() {
  if (!segment_) {
    if (!context_.draw_nonce(nonce_)) return Fail(ErrorCode::kResource, "the system gave no random bytes");
    RONDO_ASSIGN(segment_, Segment::Make(context_.ring_bytes));
    segment_->head().nonce = nonce_;
  }
  RONDO_ASSIGN(connection_, ConnectTo(context_.peer_socket));
  if (!connection_) return {};
  const ConnectMessage message{.from = self_, .index = index_, .nonce = nonce_};
  return SendWith(connection_.get(), std::as_bytes(std::span(&message, 1)), {context_.signal, segment_->fd()});
}

Status ShmLane::AnswerRequest(const Verdict& theirs) {
  if (theirs.kind != Verdict::Kind::kShared) return Fail(ErrorCode::kResource, "the other side cannot share memory");
  auto request = context_.find_request({.from = base_.peer(), .index = index_, .nonce = theirs.nonce});
  if (!request) return Fail(ErrorCode::kUnreachable, "the other side left no request at the abstract socket");
  RONDO_ASSIGN(Segment segment, Segment::Map(std::move(request->segment)));
  if (segment.head().nonce != theirs.nonce)
    return Fail(ErrorCode::kProtocol,
                "the received segment is not the one that the other side announced: its nonce differs");
  if (!context_.draw_nonce(nonce_)) return Fail(ErrorCode::kResource, "the system gave no random bytes");
  segment.head().answer = nonce_;
  const ConnectMessage message{.from = self_, .index = index_, .nonce = nonce_};
  RONDO_TRY(SendWith(request->connection.get(), std::as_bytes(std::span(&message, 1)), {context_.signal}));
  segment_ = std::move(segment);
  peer_signal_ = std::move(request->signal);
  return {};
}

Status ShmLane::TakeAnswer(const Verdict& theirs) {
  if (theirs.kind != Verdict::Kind::kShared) {
    if (why_plain_.empty()) why_plain_ = "the other side cannot share memory";
    return {};
  }
  ConnectMessage message;
  RONDO_ASSIGN(Received received, ReceiveWith(connection_.get(), std::as_writable_bytes(std::span(&message, 1)), 1));
  if (!received.came || received.descriptors.size() != 1 || message.nonce != theirs.nonce ||
      segment_->head().answer != theirs.nonce)
    return Fail(ErrorCode::kProtocol, "the answer at the abstract socket differs from the one over the lane");
  peer_signal_ = std::move(received.descriptors.front());
  return {};
}

void ShmLane::SendVerdict(Verdict::Kind kind) {
  Verdict verdict;
  verdict.kind = kind;
  verdict.nonce = nonce_;
  out_.Start(verdict);
}

void ShmLane::Settle(int side) {
  connection_.Close();
  state_ = LaneState::kOpen;
  if (!why_plain_.empty()) {
    segment_.reset();
    phase_ = Phase::kPlain;
    changed_ = true;
    return;
  }
  segment_->ForgetFd();
  SegmentHead& head = segment_->head();
  const auto own = static_cast<std::size_t>(side), theirs = static_cast<std::size_t>(1 - side);
  producer_.emplace(head.rings[own], segment_->ring(side), segment_->ring_bytes());
  consumer_.emplace(head.rings[theirs], segment_->ring(1 - side), segment_->ring_bytes());
  own_bell_.emplace(SharedState(head.bells[own].state), EventFdRef(context_.signal));
  peer_bell_.emplace(SharedState(head.bells[theirs].state), EventFdRef(peer_signal_.get()));
  phase_ = Phase::kShared;
  changed_ = true;
  context_.step("lane shared");
}

// ---- the base lane ----

void ShmLane::AdoptBase() {
  const LaneState base = base_.state();
  if (phase_ == Phase::kPlain) {
    state_ = base;
    return;
  }
  if (base == LaneState::kFailed) {
    // Bytes that have arrived on a shared lane may still be read. A lane that has not agreed on a path has no arrived
    // bytes.
    state_ = LaneState::kFailed;
    return;
  }
  if (base != LaneState::kEnded) return;
  if (phase_ != Phase::kShared)
    return FailWith(ErrorCode::kConnectionReset, "the other side left before memory was shared");
  base_over_ = true;
  LookForEnd();
}

// Ends the lane if the base lane has ended and the ring is empty. Nothing can follow, because the peer wrote its last
// byte into the ring before it ended the base lane.
void ShmLane::LookForEnd() {
  if (base_over_ && state_ == LaneState::kOpen && consumer_->Arrived(1) == 0) state_ = LaneState::kEnded;
}

std::string ShmLane::Describe() const {
  switch (phase_) {
    case Phase::kShared: return fmt::format("shm, {} KiB each way", segment_->ring_bytes() / 1024);
    case Phase::kPlain: return fmt::format("no shared memory: {}", why_plain_);
    default: return "agreeing on shared memory";
  }
}

// ---- sending ----

std::size_t ShmLane::Write(std::span<const Bytes> pieces) {
  if (phase_ == Phase::kPlain) return may_send_ ? base_.Write(pieces) : 0;
  if (phase_ != Phase::kShared || !may_send_ || state_ == LaneState::kFailed) return 0;
  std::size_t done = 0;
  std::size_t unpublished = 0;
  const auto publish = [&] {
    if (unpublished == 0) return;
    producer_->Publish();
    peer_bell_->Ring();
    unpublished = 0;
  };
  write_short_ = false;
  for (Bytes piece : pieces) {
    while (!piece.empty()) {
      const std::size_t want = std::min(piece.size(), kPublishBytes - unpublished);
      const std::size_t part = std::min(want, producer_->Room(want));
      if (part == 0) {
        publish();
        write_short_ = true;
        if (!producer_->Sound()) FailWith(ErrorCode::kProtocol, "the other side sent counters that are out of bounds");
        return done;
      }
      producer_->Put(piece.first(part));
      piece = piece.subspan(part);
      done += part;
      unpublished += part;
      if (unpublished >= kPublishBytes) publish();
    }
  }
  publish();
  return done;
}

std::uint64_t ShmLane::accepted() const {
  if (phase_ == Phase::kShared) return producer_->accepted();
  return phase_ == Phase::kPlain ? PlainAccepted() : 0;
}

std::uint64_t ShmLane::released() const {
  if (phase_ == Phase::kPlain) return PlainReleased();
  return accepted();  // the ring has a copy of all accepted bytes
}

// ---- receiving ----

Arrived ShmLane::Peek(std::size_t want) {
  if (revoked_) return {};
  if (phase_ == Phase::kPlain) return base_.Peek(want);
  if (phase_ != Phase::kShared) return {};
  // Returns no more than the owner processes in one step, because bytes that are consumed early make room for the other
  // side early. But a Peek also returns all bytes that an earlier Peek has returned and that are not consumed yet.
  shown_ = std::min(consumer_->Arrived(want), std::max({want, kPublishBytes, shown_}));
  if (!consumer_->Sound()) FailWith(ErrorCode::kProtocol, "the other side sent counters that are out of bounds");
  const Bytes first = consumer_->Front(shown_);
  return {first, consumer_->Behind(first.size(), shown_ - first.size())};
}

void ShmLane::Consume(std::size_t bytes) {
  if (phase_ == Phase::kPlain) return base_.Consume(bytes);
  if (bytes == 0) return;
  RONDO_CHECK(phase_ == Phase::kShared && bytes <= consumer_->Arrived(0), "{} bytes consumed that Peek did not show",
              bytes);
  Take(bytes);
  LookForEnd();
}

void ShmLane::Take(std::size_t bytes) {
  consumer_->Take(bytes);
  shown_ -= std::min(shown_, bytes);
  peer_bell_->Ring();
}

std::size_t ShmLane::ReadInto(MutableBytes destination) {
  if (revoked_) return 0;
  if (phase_ == Phase::kPlain) return base_.ReadInto(destination);
  if (phase_ != Phase::kShared) return 0;
  std::size_t done = 0;
  while (done < destination.size()) {
    const std::size_t want = std::min(destination.size() - done, kPublishBytes);
    consumer_->Arrived(want);
    const Bytes front = consumer_->Front(want);
    if (front.empty()) break;
    std::memcpy(destination.data() + done, front.data(), front.size());
    Take(front.size());
    done += front.size();
  }
  if (!consumer_->Sound()) FailWith(ErrorCode::kProtocol, "the other side sent counters that are out of bounds");
  LookForEnd();
  return done;
}

std::uint64_t ShmLane::consumed() const {
  if (phase_ == Phase::kShared) return consumer_->consumed();
  return phase_ == Phase::kPlain ? PlainConsumed() : 0;
}

// ---- sleeping ----

bool ShmLane::Arm() {
  if (revoked_ || state_ == LaneState::kFailed) return false;
  if (phase_ == Phase::kRequesting) return true;  // no event reports room in the peer's queue
  if (phase_ != Phase::kShared) return false;     // the base lane wakes the owner
  return own_bell_->Arm() || consumer_->HasNews() || (write_short_ && producer_->HasNews());
}

void ShmLane::Disarm() {
  if (phase_ == Phase::kShared && !revoked_) own_bell_->Disarm();
}

}  // namespace rondo::shm
