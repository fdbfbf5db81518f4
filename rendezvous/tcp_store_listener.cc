#include "rendezvous/tcp_store_listener.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "base/net/descriptors.h"
#include "base/net/ports.h"
#include "base/net/resolve.h"

namespace rondo {
namespace {

Result<Fd> Listen(const TcpStoreServer::Options& options, const SocketAddress& address, bool every_family) {
  return ListenOnPort({.address = address,
                       .ports = options.ports,
                       .both_families = every_family,
                       .backlog = options.limits.backlog,
                       .until = options.deadline,
                       .clock = options.clock});
}

}  // namespace

Result<Fd> OpenListener(const TcpStoreServer::Options& options, const Clock& clock) {
  if (options.listen_fd) {
    Fd fd(*options.listen_fd);
    const SocketAddress address = LocalSocketAddress(fd.get());
    if (address == SocketAddress{}) {
      return Fail(ErrorCode::kInvalidArgument, "descriptor {} is not a bound TCP socket", fd.get());
    }
    if (listen(fd.get(), options.limits.backlog) != 0)
      return Fail(ErrorCode::kResource, "the store cannot listen on {}: {}", address.ToString(), SystemWords(errno));
    fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
    return fd;
  }
  if (options.host.empty()) {
    const auto every_v6 = IpAddress::FromBytes(std::array<std::byte, 16>{});
    auto both = Listen(options, {every_v6, options.port}, true);
    if (both || both.error().code() == ErrorCode::kAddressInUse) return both;
    return Listen(options, {IpAddress(), options.port}, false);
  }
  RONDO_ASSIGN(const auto addresses,
               Resolve({.host = options.host, .port = options.port}, ResolveFor::kListen, clock, options.deadline));
  return Listen(options, addresses.front(), false);
}

}  // namespace rondo
