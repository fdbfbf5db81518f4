#include "tools/run/held_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/net/descriptors.h"

namespace rondo {
namespace {

// Returns the bound port. 0: no port was bound, and errno has the reason.
std::uint16_t BindTo(int fd, std::uint16_t port) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  any.sin_port = htons(port);
  socklen_t bytes = sizeof any;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&any), bytes) != 0) return 0;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&any), &bytes) == 0 ? ntohs(any.sin_port) : 0;
}

}  // namespace

Result<HeldPort> HeldPort::Take(PortRange ports) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return Fail(ErrorCode::kResource, "a socket could not be created: {}", SystemWords(errno));
  // SO_REUSEADDR is set only after bind, so that bind fails for every port that another socket uses, even if that
  // socket has the option.
  std::uint16_t port = 0;
  if (!ports.IsSet()) port = BindTo(fd.get(), 0);
  for (int i = 0; ports.IsSet() && port == 0 && i < ports.count(); ++i)
    port = BindTo(fd.get(), static_cast<std::uint16_t>(ports.first + i));
  if (port == 0) return Fail(ErrorCode::kAddressInUse, "no port of {} is free", ports.ToString());
  LetPortBeReused(fd.get());
  return HeldPort(std::move(fd), port);
}

}  // namespace rondo
