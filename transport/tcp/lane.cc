#include "transport/tcp/lane.h"

#include <fmt/core.h>
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

constexpr std::size_t kMaxPieces = 24;  // limit for one system call; the next call takes the remaining pieces

}  // namespace

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
  // If the kernel took only a part, its buffer was full. Therefore it reports an edge-triggered event for writing when
  // there is room (TcpEndpoint::Harvest).
  write_blocked_ = static_cast<std::size_t>(sent) < bytes;
  accepted_ += static_cast<std::uint64_t>(sent);
  return static_cast<std::size_t>(sent);
}

Arrived TcpLane::Peek(std::size_t want) {
  if (staging_.staged() < want && can_receive_) Fetch(want - staging_.staged());
  return staging_.Shown();
}

void TcpLane::Fetch(std::size_t bytes) {
  const std::array<MutableBytes, 2> room = staging_.Room(bytes);
  if (!room[0].empty()) {
    ssize_t result;
    if (room[1].empty()) {
      result = recv(receiver_.get(), room[0].data(), room[0].size(), MSG_DONTWAIT);
    } else {
      std::array<iovec, 2> vectors{iovec{room[0].data(), room[0].size()}, iovec{room[1].data(), room[1].size()}};
      msghdr message{};
      message.msg_iov = vectors.data();
      message.msg_iovlen = vectors.size();
      result = recvmsg(receiver_.get(), &message, MSG_DONTWAIT);
    }
    staging_.Received(Received(result));
  }
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
  if (staging_.staged() != 0) return;
  if (end_announced_ && can_receive_) {
    std::byte next;
    const ssize_t result = recv(receiver_.get(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
    if (result <= 0) Received(result);
  }
  if (ended_ && state_ == LaneState::kOpen) state_ = LaneState::kEnded;
}

void TcpLane::Consume(std::size_t bytes) {
  staging_.Consume(bytes);
  LookForEnd();
}

std::size_t TcpLane::ReadInto(MutableBytes destination) {
  std::size_t done = staging_.MoveTo(destination);
  if (done < destination.size() && can_receive_) {
    const std::size_t part =
        Received(recv(receiver_.get(), destination.data() + done, destination.size() - done, MSG_DONTWAIT));
    staging_.Passed(part);
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

void TcpLane::Adopt(Delivery delivery) {
  if (state_ != LaneState::kConnecting) return;  // the lane was revoked or has failed; returning closes the socket
  can_send_ = can_send_ || delivery.sends;
  can_receive_ = can_receive_ || delivery.receives;
  (delivery.receives ? receiver_ : sender_) = std::move(delivery.fd);
  if (can_send_ && can_receive_) state_ = LaneState::kOpen;
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

}  // namespace rondo::tcp
