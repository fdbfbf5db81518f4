#include "transport/inproc/lane.h"

#include <fmt/core.h>

#include <utility>

#include "base/check.h"

namespace rondo {

InprocLane::InprocLane(std::shared_ptr<InprocFabric> fabric, InprocFabric::Attached attached, Rank self, Rank peer,
                       std::uint32_t index, std::uint32_t connecting_polls, Random random)
    : fabric_(std::move(fabric)),
      link_(std::move(attached.link)),
      side_(attached.side),
      self_(self),
      peer_(peer),
      index_(index),
      writer_(link_->streams[side_], fabric_->options, fabric_->tally, random.Split()),
      reader_(link_->streams[1 - side_], fabric_->options, fabric_->tally, random.Split()),
      connecting_polls_(connecting_polls) {}

InprocLane::~InprocLane() {
  // If bytes were not copied, the peer can no longer read them, so it must not see an orderly end.
  const bool orderly =
      link_->sides[side_].load(std::memory_order_relaxed) == SideState::kShutDown && !writer_.HasZeroCopySends();
  writer_.Revoke();
  reader_.Revoke();
  if (!orderly) link_->Raise(side_, SideState::kGone);
}

LaneState InprocLane::state() const {
  if (failed_) return LaneState::kFailed;
  if (connecting_polls_ > 0) return LaneState::kConnecting;
  if (peer_state_ != SideState::kLive && reader_.Exhausted()) return failure_ ? LaneState::kFailed : LaneState::kEnded;
  return LaneState::kOpen;
}

const Error* InprocLane::failure() const { return state() == LaneState::kFailed ? &*failure_ : nullptr; }

std::size_t InprocLane::Write(std::span<const Bytes> pieces) {
  if (!CanWrite()) return 0;
  const std::size_t done = writer_.Write(pieces);
  if (done > 0) RingPeer();
  return done;
}

Arrived InprocLane::Peek(std::size_t want) { return CanRead() ? reader_.Peek(want) : Arrived{}; }

void InprocLane::Consume(std::size_t bytes) {
  reader_.Consume(bytes);
  if (bytes > 0) RingPeer();
}

std::size_t InprocLane::ReadInto(MutableBytes destination) {
  if (!CanRead()) return 0;
  const std::size_t done = reader_.ReadInto(destination);
  if (done > 0) RingPeer();
  return done;
}

bool InprocLane::Expect(std::uint64_t stream_offset, MutableBytes destination) {
  return !revoked_ && reader_.Expect(stream_offset, destination);
}

void InprocLane::Revoke() {
  if (revoked_) return;
  revoked_ = true;
  writer_.Revoke();
  reader_.Revoke();
  if (!failure_)
    failure_ = ErrorAbout(ErrorCode::kClosed, fmt::format("this rank revoked lane {} to rank {}", index_, peer_), self_,
                          self_);
  failed_ = true;
  link_->Raise(side_, SideState::kRevoked);
}

void InprocLane::Poll() {
  if (connecting_polls_ > 0) --connecting_polls_;
  writer_.Poll();
}

void InprocLane::AdoptStates() {
  if (!failed_ && link_->sides[side_].load(std::memory_order_acquire) == SideState::kKilled) {
    failed_ = true;
    failure_ = ErrorAbout(ErrorCode::kClosed, fmt::format("this rank, {}, was killed", self_), self_, self_);
  }
  const SideState peer = link_->sides[1 - side_].load(std::memory_order_acquire);
  if (peer == peer_state_) return;
  peer_state_ = peer;
  reader_.EndHere();
  if (peer > SideState::kShutDown && !failure_) failure_ = PeerError(peer);
}

bool InprocLane::HasNews() {
  if (std::exchange(failed_in_write_, false) || connecting_polls_ > 0) return true;
  if (revoked_) return false;
  const bool reader = reader_.HasNews();
  return writer_.HasNews() || reader;
}

void InprocLane::ShutDown() { link_->Raise(side_, SideState::kShutDown); }

bool InprocLane::CanWrite() {
  if (connecting_polls_ > 0 || link_->sides[side_].load(std::memory_order_relaxed) != SideState::kLive) return false;
  if (!failure_) return true;
  // Like a socket: a write to a peer that has ended fails at once, even while there are bytes to read.
  if (!failed_) failed_ = failed_in_write_ = true;
  return false;
}

Error InprocLane::PeerError(SideState how) const {
  if (how == SideState::kRevoked)
    return ErrorAbout(ErrorCode::kConnectionReset, fmt::format("rank {} revoked lane {}", peer_, index_), self_, peer_);
  return ErrorAbout(ErrorCode::kPeerLost,
                    fmt::format("lane {} broke: rank {} {}", index_, peer_,
                                how == SideState::kKilled ? "was killed" : "closed its endpoint"),
                    self_, peer_);
}

}  // namespace rondo
