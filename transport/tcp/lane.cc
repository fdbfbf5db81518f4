#include "transport/tcp/lane.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/out_of_memory.h"

namespace rondo::tcp {
namespace {

constexpr std::size_t kMaxPieces = 16;  // of one system call; the rest goes with the next

}  // namespace

void TcpLane::FreeStaging::operator()(std::byte* bytes) const {
  ::operator delete(bytes, std::align_val_t(kLineBytes));
}

TcpLane::TcpLane(LanePeer names, std::uint32_t index)
    : names_(std::move(names)),
      index_(index),
      staging_(static_cast<std::byte*>(::operator new(kStagingBytes, std::align_val_t(kLineBytes)))) {}

std::size_t TcpLane::Write(std::span<const Bytes> pieces) {
  if (!can_send_ || state_ == LaneState::kFailed || state_ == LaneState::kConnecting) return 0;
  std::array<iovec, kMaxPieces> vectors;
  std::size_t count = 0;
  std::size_t bytes = 0;
  for (const Bytes piece : pieces) {
    if (piece.empty()) continue;
    if (count == kMaxPieces) break;
    vectors[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
    bytes += piece.size();
  }
  if (count == 0) return 0;
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  ssize_t sent;
  do {
    sent = sendmsg(sender(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    if (errno != EAGAIN) {
      can_send_ = false;
      Broke("sending", errno);
      return 0;
    }
    sent = 0;
  }
  // A call that took less than it was given ran out of room, and the kernel has noted that somebody waits for more: an
  // edge for writing follows (Endpoint::Arm).
  write_blocked_ = static_cast<std::size_t>(sent) < bytes;
  accepted_ += static_cast<std::uint64_t>(sent);
  return static_cast<std::size_t>(sent);
}

void TcpLane::Commit(std::size_t bytes) { RONDO_CHECK(bytes == 0, "a TCP lane reserves no room to commit"); }

Arrived TcpLane::Peek(std::size_t want) {
  if (staged() < want && can_receive_) Fetch(want - staged());
  const std::size_t size = staged();
  const std::size_t place = Place(consumed_);
  const std::size_t first = std::min(size, kStagingBytes - place);
  return {Bytes(staging_.get() + place, first), Bytes(staging_.get(), size - first)};
}

void TcpLane::Fetch(std::size_t bytes) {
  if (staged() == 0) origin_ = received_ / kLineBytes * kLineBytes;
  const std::size_t room = kStagingBytes - staged();
  const std::size_t size = std::min(room, std::max(bytes, kLeastFetchBytes));
  const std::size_t place = Place(received_);
  const std::size_t first = std::min(size, kStagingBytes - place);
  ssize_t result;
  if (first == size) {
    result = recv(receiver_.get(), staging_.get() + place, size, MSG_DONTWAIT);
  } else {
    std::array<iovec, 2> vectors{iovec{staging_.get() + place, first}, iovec{staging_.get(), size - first}};
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = vectors.size();
    result = recvmsg(receiver_.get(), &message, MSG_DONTWAIT);
  }
  if (size != 0) received_ += Received(result);
  LookForEnd();
}

std::size_t TcpLane::Received(ssize_t result) {
  if (result > 0) return static_cast<std::size_t>(result);
  if (result == 0) {
    can_receive_ = false;
    ended_ = true;
  } else if (errno != EAGAIN && errno != EINTR) {
    can_receive_ = false;
    Broke("receiving", errno);
  }
  return 0;
}

void TcpLane::LookForEnd() {
  if (staged() != 0) return;
  if (end_announced_ && can_receive_) {
    std::byte next;
    const ssize_t result = recv(receiver_.get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
    if (result <= 0) Received(result);
  }
  if (ended_ && state_ == LaneState::kOpen) state_ = LaneState::kEnded;
}

void TcpLane::Consume(std::size_t bytes) {
  RONDO_CHECK(bytes <= staged(), "{} bytes consumed of {} that Peek showed", bytes, staged());
  consumed_ += bytes;
  LookForEnd();
}

std::size_t TcpLane::ReadInto(MutableBytes destination) {
  std::size_t done = 0;
  while (done < destination.size() && staged() != 0) {  // at most twice: the ring may wrap
    const std::size_t place = Place(consumed_);
    const std::size_t part = std::min({destination.size() - done, staged(), kStagingBytes - place});
    std::memcpy(destination.data() + done, staging_.get() + place, part);
    consumed_ += part;
    done += part;
  }
  if (done < destination.size() && can_receive_) {
    const std::size_t part =
        Received(recv(receiver_.get(), destination.data() + done, destination.size() - done, MSG_DONTWAIT));
    received_ += part;
    consumed_ += part;
    done += part;
  }
  LookForEnd();
  return done;
}

void TcpLane::Revoke() {
  Error why = Error::MemoryRanOut();
  IfMemoryAllows(
      [&] { why = Error(ErrorCode::kClosed, fmt::format("lane {} with rank {} was given up", index_, names_.peer)); });
  FailWith(std::move(why));
  can_send_ = can_receive_ = false;
  receiver_.Close();
  sender_.Close();
}

void TcpLane::Adopt(Fd fd, bool sends, bool receives) {
  if (state_ != LaneState::kConnecting) return;  // revoked or failed meanwhile: the socket closes here
  can_send_ = can_send_ || sends;
  can_receive_ = can_receive_ || receives;
  (receives ? receiver_ : sender_) = std::move(fd);
  if (can_send_ && can_receive_) state_ = LaneState::kOpen;
}

void TcpLane::FailWith(Error error) {
  if (state_ == LaneState::kFailed) return;
  state_ = LaneState::kFailed;
  failure_ = std::move(error);
}

void TcpLane::ShutDownWriting() {
  can_send_ = false;
  if (receiver_) shutdown(receiver_.get(), SHUT_WR);
  if (sender_) shutdown(sender_.get(), SHUT_WR);
}

void TcpLane::DrainBeforeClose() {
  if (receiver_) Drain(receiver_.get());
}

bool TcpLane::Note(std::uint32_t events) {
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
    const bool news = can_receive_ || can_send_;
    end_announced_ = true;
    LookForEnd();
    return news;
  }
  return ((events & EPOLLIN) != 0 && can_receive_) || ((events & EPOLLOUT) != 0 && write_blocked_);
}

void TcpLane::Broke(std::string_view doing, int error) {
  const SocketAddress address = PeerSocketAddress(sender());
  ErrorDetails details;
  details.code = ErrorCode::kConnectionReset;
  details.message = fmt::format("lane {} with rank {} broke while {}: {} ({} bytes sent, {} received)", index_,
                                names_.peer, doing, SystemMessage(error), accepted_, received_);
  details.rank = names_.self;
  details.culprit = names_.peer;
  details.host = names_.host;
  if (address.port != 0) details.address = address.ToString();
  FailWith(Error(std::move(details)));
}

}  // namespace rondo::tcp
