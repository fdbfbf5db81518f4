#include "rendezvous/tcp_store_listener.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "rendezvous/net_address.h"

namespace rondo {
namespace {

Error BindError(const SocketAddress& address, const char* call, int number) {
  ErrorDetails details;
  details.address = address.ToString();
  if (number == EADDRINUSE) {
    details.code = ErrorCode::kAddressInUse;
    details.message = fmt::format("another process listens on {}; end it or choose another port (0: any free one)",
                                  address.ToString());
  } else {
    details.code = number == EADDRNOTAVAIL || number == EACCES ? ErrorCode::kInvalidArgument : ErrorCode::kResource;
    details.message =
        fmt::format("a store cannot listen on {}: {}: {}", address.ToString(), call, std::strerror(number));
  }
  return Error(std::move(details));
}

Result<OwnedFd> Listen(const SocketAddress& address, int backlog, bool every_family) {
  OwnedFd fd(socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return tl::unexpected(BindError(address, "socket", errno));
  const int on = 1;
  const int off = 0;
  // A port whose last owner's connections linger in TIME_WAIT is free to us.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6) {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, every_family ? &off : &on, sizeof on);
  }
  if (bind(fd.get(), address.get(), address.bytes) != 0) return tl::unexpected(BindError(address, "bind", errno));
  if (listen(fd.get(), backlog) != 0) return tl::unexpected(BindError(address, "listen", errno));
  return fd;
}

SocketAddress EveryInterface(int family, std::uint16_t port) {
  SocketAddress address;
  if (family == AF_INET6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_any;
    v6.sin6_port = htons(port);
    address.bytes = sizeof v6;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_ANY);
    v4.sin_port = htons(port);
    address.bytes = sizeof v4;
  }
  return address;
}

}  // namespace

Result<OwnedFd> OpenListener(const TcpStoreServer::Options& options, const Clock& clock) {
  if (options.listen_fd) {
    OwnedFd fd(*options.listen_fd);
    RONDO_ASSIGN(const SocketAddress address, LocalAddress(fd.get()));
    if (address.family() != AF_INET && address.family() != AF_INET6) {
      return Fail(ErrorCode::kInvalidArgument, "descriptor {} is no TCP socket", fd.get());
    }
    if (listen(fd.get(), options.limits.backlog) != 0) return tl::unexpected(BindError(address, "listen", errno));
    fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
    return fd;
  }
  if (options.host.empty()) {
    auto both = Listen(EveryInterface(AF_INET6, options.port), options.limits.backlog, true);
    if (both || both.error().code() == ErrorCode::kAddressInUse) return both;
    return Listen(EveryInterface(AF_INET, options.port), options.limits.backlog, false);
  }
  RONDO_ASSIGN(const auto addresses,
               Resolve({.host = options.host, .port = options.port}, ResolveFor::kListen, clock, options.deadline));
  return Listen(addresses.front(), options.limits.backlog, false);
}

}  // namespace rondo
