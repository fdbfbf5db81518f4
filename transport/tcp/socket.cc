#include "transport/tcp/socket.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>

namespace rondo::tcp {
namespace {

void SetInt(int fd, int level, int name, int value) { setsockopt(fd, level, name, &value, sizeof value); }

std::string CongestionControl(int fd) {
  std::array<char, 32> current{};
  socklen_t bytes = current.size() - 1;
  return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, current.data(), &bytes) == 0 ? current.data() : "";
}

}  // namespace

std::string SystemMessage(int error) { return std::generic_category().message(error); }

Error SystemError(int error, std::string_view what, ErrorCode otherwise) {
  const bool resource = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  return Error(resource ? ErrorCode::kResource : otherwise, fmt::format("{}: {}", what, SystemWords(error)));
}

Result<Fd> Listen(const SocketAddress& at, int backlog, bool dual_stack,
                  const std::vector<std::string>& congestion_control, PortRange ports) {
  return ListenOnPort(
      {.address = at, .ports = ports, .both_families = dual_stack, .backlog = backlog, .prepare = [&](int fd) {
         SetCongestionControl(fd, congestion_control);
       }});
}

Result<Fd> StartConnect(const SocketAddress& to, const IpAddress* from, int buffer_bytes,
                        const std::vector<std::string>& congestion_control) {
  Fd fd(socket(to.ip.is_v4() ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return Fail(SystemError(errno, "cannot create a socket", ErrorCode::kUnsupported));
  LetPortBeReused(fd.get());
  SetBuffers(fd.get(), buffer_bytes);
  SetCongestionControl(fd.get(), congestion_control);
  if (from != nullptr && from->is_v4() == to.ip.is_v4()) {
    SetInt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    const RawSocketAddress raw = ToRaw({*from, 0});
    if (bind(fd.get(), raw.get(), raw.bytes) != 0) {
      return Fail(SystemError(errno, fmt::format("cannot connect from {}", from->ToString()), ErrorCode::kUnreachable));
    }
  }
  const RawSocketAddress raw = ToRaw(to);
  if (connect(fd.get(), raw.get(), raw.bytes) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    const std::string no_port = error == EADDRNOTAVAIL ? WhyNoLocalPort(raw.storage.ss_family) : "";
    if (!no_port.empty()) return Fail(ErrorCode::kResource, "connect: {}", no_port);
    return Fail(SystemError(error, "connect", ErrorCode::kUnreachable));
  }
  return fd;
}

int ConnectResult(int fd) {
  int error = 0;
  socklen_t bytes = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) return errno;
  if (error != 0 || !IsConnectedToItself(fd)) return error;
  MakeCloseAbortive(fd);
  return ECONNREFUSED;
}

void SetNoDelay(int fd) { SetInt(fd, IPPROTO_TCP, TCP_NODELAY, 1); }

void SetSilenceLimit(int fd, Duration silence) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(silence).count();
  // The first probe is sent after a third of the limit, and two more follow. So an idle connection to a dead machine
  // ends within the limit.
  const int third_s = static_cast<int>(std::clamp<long long>(ms / 3000, 1, 32767));
  SetInt(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetInt(fd, IPPROTO_TCP, TCP_KEEPIDLE, third_s);
  SetInt(fd, IPPROTO_TCP, TCP_KEEPINTVL, third_s);
  SetInt(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
  SetInt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::clamp<long long>(ms, 1, 1 << 30)));
}

std::string SetCongestionControl(int fd, const std::vector<std::string>& preferred) {
  std::string refused;
  for (const std::string& name : preferred) {
    // EPERM: the algorithm is not in net.ipv4.tcp_allowed_congestion_control, and this process is not root. ENOENT:
    // this kernel does not have the algorithm.
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0) break;
    refused += fmt::format("; {}: {}", name, SystemMessage(errno));
  }
  const std::string current = CongestionControl(fd);
  return (current.empty() ? "unknown" : current) + refused;
}

std::string SystemCongestionControl() {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return CongestionControl(fd.get());
}

void SetBuffers(int fd, int bytes) {
  if (bytes <= 0) return;
  SetInt(fd, SOL_SOCKET, SO_SNDBUF, bytes);
  SetInt(fd, SOL_SOCKET, SO_RCVBUF, bytes);
}

void Drain(int fd) {
  std::array<std::byte, 16384> waste;
  for (int i = 0; i < 64; ++i) {
    if (recv(fd, waste.data(), waste.size(), MSG_DONTWAIT) <= 0) return;
  }
}

}  // namespace rondo::tcp
