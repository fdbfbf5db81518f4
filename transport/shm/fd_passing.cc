#include "transport/shm/fd_passing.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "base/net/descriptors.h"

namespace rondo::shm {
namespace {

constexpr std::size_t kMaxDescriptors = 80;  // the most descriptors in one message; the kernel allows 253

struct Address {
  sockaddr_un raw{};
  socklen_t bytes = 0;
};

Address AddressOf(std::string_view name) {
  Address address;
  address.raw.sun_family = AF_UNIX;
  RONDO_CHECK(name.size() < sizeof address.raw.sun_path, "an abstract name of {} bytes", name.size());
  std::memcpy(address.raw.sun_path + 1, name.data(), name.size());  // byte 0 stays 0, which makes the name abstract
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Fd Socket() { return Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

}  // namespace

Result<Fd> ListenAt(std::string_view name, int backlog) {
  Fd fd = Socket();
  if (!fd) return Fail(ErrorCode::kResource, "cannot create a Unix socket: {}", SystemWords(errno));
  const Address address = AddressOf(name);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.raw), address.bytes) != 0 ||
      listen(fd.get(), backlog) != 0) {
    return Fail(errno == EADDRINUSE ? ErrorCode::kAddressInUse : ErrorCode::kResource,
                "cannot listen at the abstract socket {}: {}", name, SystemWords(errno));
  }
  return fd;
}

Result<Fd> ConnectTo(std::string_view name) {
  Fd fd = Socket();
  if (!fd) return Fail(ErrorCode::kResource, "cannot create a Unix socket: {}", SystemWords(errno));
  const Address address = AddressOf(name);
  int result;
  do result = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.raw), address.bytes);
  while (result != 0 && errno == EINTR);
  if (result == 0) return fd;
  if (errno == EAGAIN) return Fd();
  return Fail(ErrorCode::kUnreachable, "no process listens at the abstract socket {}: {}", name, SystemWords(errno));
}

Fd AcceptNext(int listener) { return Fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)); }

bool HasTrustedUid(int fd) {
  ucred who{};
  socklen_t bytes = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && (who.uid == geteuid() || who.uid == 0);
}

Status SendWith(int fd, Bytes message, const std::vector<int>& descriptors) {
  RONDO_CHECK(descriptors.size() <= kMaxDescriptors, "{} descriptors", descriptors.size());
  iovec piece{const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> space{};
  msghdr packet{};
  packet.msg_iov = &piece;
  packet.msg_iovlen = 1;
  if (!descriptors.empty()) {
    packet.msg_control = space.data();
    packet.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* const head = CMSG_FIRSTHDR(&packet);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ssize_t sent;
  do sent = sendmsg(fd, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  if (sent == static_cast<ssize_t>(message.size())) return {};
  return Fail(ErrorCode::kResource, "cannot pass file descriptors to the other process: {}", SystemWords(errno));
}

Result<Received> ReceiveWith(int fd, MutableBytes message, std::size_t most_descriptors) {
  RONDO_CHECK(most_descriptors <= kMaxDescriptors, "{} descriptors", most_descriptors);
  iovec piece{message.data(), message.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> space{};
  msghdr packet{};
  packet.msg_iov = &piece;
  packet.msg_iovlen = 1;
  packet.msg_control = space.data();
  packet.msg_controllen = CMSG_SPACE(most_descriptors * sizeof(int));
  Received received;
  // Memory is reserved before receiving, because each received descriptor needs an owner at once.
  received.descriptors.reserve(most_descriptors);
  ssize_t got;
  do got = recvmsg(fd, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return received;
  for (cmsghdr* head = got < 0 ? nullptr : CMSG_FIRSTHDR(&packet); head != nullptr; head = CMSG_NXTHDR(&packet, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(head) + i * sizeof(int), sizeof descriptor);
      received.descriptors.emplace_back(descriptor);
    }
  }
  // If this process has no room for descriptors, the system drops them, and only this flag reports that.
  if (got == static_cast<ssize_t>(message.size()) && (packet.msg_flags & MSG_CTRUNC) != 0 &&
      received.descriptors.size() < most_descriptors) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return Fail(ErrorCode::kResource,
                "received only {} of the {} file descriptors that the other side passed, because this process may have "
                "at most {} open; raise that limit (ulimit -n)",
                received.descriptors.size(), most_descriptors, limit.rlim_cur);
  }
  if (got != static_cast<ssize_t>(message.size()) || (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return Fail(ErrorCode::kProtocol, "expected a message with file descriptors, got an unreadable one of {} bytes",
                got);
  received.came = true;
  return received;
}

}  // namespace rondo::shm
