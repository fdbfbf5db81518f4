#include "transport/tcp/tls_lane.h"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/tls_socket.h"

namespace rondo::tcp {
namespace {

constexpr std::size_t kMaxTlsPieces = 24;  // limit for one call; the next call takes the remaining pieces

}  // namespace

std::size_t TlsLane::Write(std::span<const Bytes> pieces) {
  if (!can_send_ || state_ == LaneState::kFailed || state_ == LaneState::kConnecting) return 0;
  std::array<Bytes, kMaxTlsPieces> given;
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (const Bytes piece : pieces) {
    if (piece.empty()) continue;
    if (count == kMaxTlsPieces) break;
    given[count++] = piece;
    bytes += piece.size();
  }
  if (count == 0) return 0;
  std::span<Bytes> rest(given.data(), count);
  std::size_t taken = 0;
  while (taken < bytes && (!unsent_ || SendUnsent()) && can_send_) {
    const Result<std::size_t> batch = tls_->Write(rest);
    if (!batch) {
      can_send_ = false;
      BrokeWith(batch.error());
      break;
    }
    unsent_ = true;
    taken += *batch;
    accepted_ += *batch;
    std::size_t passed = *batch;
    while (!rest.empty() && passed >= rest.front().size()) {
      passed -= rest.front().size();
      rest = rest.subspan(1);
    }
    if (passed != 0) rest.front() = rest.front().subspan(passed);
    if (!SendUnsent()) break;
  }
  write_blocked_ = taken < bytes;
  return taken;
}

bool TlsLane::SendUnsent() {
  switch (rondo::SendUnsent(fd_.get(), *tls_)) {
    case Sending::kDone: break;
    case Sending::kBlocked: return false;
    case Sending::kBroken:
      can_send_ = unsent_ = false;
      Broke("sending", errno, fd_.get(), staging_.received());
      return false;
  }
  unsent_ = false;
  released_ = accepted_;
  if (std::exchange(shutting_down_, false)) shutdown(fd_.get(), SHUT_WR);
  return true;
}

Arrived TlsLane::Peek(std::size_t want) {
  if (staging_.staged() < want && can_receive_) {
    Fetch(want - staging_.staged());
    LookForEnd();
  }
  return staging_.Shown();
}

void TlsLane::Fetch(std::size_t bytes) {
  for (const MutableBytes room : staging_.Room(bytes)) {
    const std::size_t got = Decrypt(room);
    staging_.Received(got);
    if (got < room.size()) return;
  }
}

std::size_t TlsLane::Decrypt(MutableBytes to) {
  std::size_t done = 0;
  bool more = true;  // the socket may still have bytes, for which no further edge follows
  while (can_receive_ && done < to.size()) {
    const Result<std::size_t> got = tls_->Read(to.subspan(done));
    if (!got) {
      can_receive_ = false;
      BrokeWith(got.error());
      break;
    }
    done += *got;
    if (tls_->ended()) {
      can_receive_ = false;
      ended_ = true;
      break;
    }
    if (done == to.size() || (!more && !end_announced_)) break;
    switch (ReceiveInto(fd_.get(), *tls_)) {
      case Receiving::kFull:
      case Receiving::kEnded: break;  // the next Read finds out whether the end is orderly
      case Receiving::kSome: more = false; break;
      case Receiving::kNothing: return done;
      case Receiving::kBroken:
        can_receive_ = false;
        Broke("receiving", errno, fd_.get(), staging_.received());
        return done;
    }
  }
  return done;
}

void TlsLane::LookForEnd() {
  if (staging_.staged() != 0) return;
  if (end_announced_ && can_receive_) Fetch(1);
  if (ended_ && staging_.staged() == 0 && state_ == LaneState::kOpen) state_ = LaneState::kEnded;
}

void TlsLane::Consume(std::size_t bytes) {
  staging_.Consume(bytes);
  LookForEnd();
}

std::size_t TlsLane::ReadInto(MutableBytes destination) {
  std::size_t done = staging_.MoveTo(destination);
  if (done < destination.size() && can_receive_) {
    const std::size_t part = Decrypt(destination.subspan(done));
    staging_.Passed(part);
    done += part;
  }
  LookForEnd();
  return done;
}

void TlsLane::Revoke() {
  Error why = Error::MemoryRanOut();
  IfMemoryAllows(
      [&] { why = Error(ErrorCode::kClosed, fmt::format("lane {} with rank {} was given up", index_, names_.peer)); });
  FailWith(std::move(why));
  can_send_ = can_receive_ = unsent_ = false;
  fd_.Close();
}

void TlsLane::Adopt(Delivery delivery) {
  if (state_ != LaneState::kConnecting) return;  // the lane was revoked or has failed; returning closes the socket
  RONDO_CHECK(delivery.tls != nullptr && delivery.sends && delivery.receives);
  fd_ = std::move(delivery.fd);
  tls_ = std::move(delivery.tls);
  can_send_ = can_receive_ = true;
  unsent_ = !tls_->Unsent().empty();
  state_ = LaneState::kOpen;
}

void TlsLane::ShutDownWriting() {
  if (!fd_) return;
  can_send_ = false;
  tls_->Finish();
  unsent_ = shutting_down_ = true;
  SendUnsent();
}

void TlsLane::DrainBeforeClose() {
  if (fd_) Drain(fd_.get());
}

bool TlsLane::Note(std::uint32_t events) {
  if (!fd_) return false;
  bool news = false;
  if ((events & EPOLLOUT) != 0) {
    const std::uint64_t before = released_;
    Flush();
    news = write_blocked_ || released_ != before;
  }
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
    news = news || can_receive_ || can_send_;
    end_announced_ = true;
    LookForEnd();
    return news;
  }
  return news || ((events & EPOLLIN) != 0 && can_receive_);
}

}  // namespace rondo::tcp
