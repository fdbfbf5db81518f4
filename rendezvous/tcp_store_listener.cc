#include "rendezvous/tcp_store_listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/descriptors.h"
#include "base/ports.h"
#include "rendezvous/net_address.h"

namespace rondo {
namespace {

Result<Fd> Listen(const TcpStoreServer::Options& options, const SocketAddress& address, bool every_family) {
  return ListenOnPort({.address = address.storage,
                       .bytes = address.bytes,
                       .ports = options.ports,
                       .both_families = every_family,
                       .backlog = options.limits.backlog,
                       .until = options.deadline,
                       .clock = options.clock});
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

Result<Fd> OpenListener(const TcpStoreServer::Options& options, const Clock& clock) {
  if (options.listen_fd) {
    Fd fd(*options.listen_fd);
    RONDO_ASSIGN(const SocketAddress address, LocalAddress(fd.get()));
    if (address.family() != AF_INET && address.family() != AF_INET6) {
      return Fail(ErrorCode::kInvalidArgument, "descriptor {} is no TCP socket", fd.get());
    }
    if (listen(fd.get(), options.limits.backlog) != 0)
      return Fail(ErrorCode::kResource, "a store cannot listen on {}: {}", address.ToString(), SystemWords(errno));
    fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
    return fd;
  }
  if (options.host.empty()) {
    auto both = Listen(options, EveryInterface(AF_INET6, options.port), true);
    if (both || both.error().code() == ErrorCode::kAddressInUse) return both;
    return Listen(options, EveryInterface(AF_INET, options.port), false);
  }
  RONDO_ASSIGN(const auto addresses,
               Resolve({.host = options.host, .port = options.port}, ResolveFor::kListen, clock, options.deadline));
  return Listen(options, addresses.front(), false);
}

}  // namespace rondo
