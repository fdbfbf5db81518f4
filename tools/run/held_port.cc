#include "tools/run/held_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/net/descriptors.h"

namespace rondo {
namespace {

// The port that was bound; 0: errno says why none was.
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
  if (!fd) return Fail(ErrorCode::kResource, "no socket: {}", SystemWords(errno));
  // Bound before it lets others beside it: so it gets a port that no other socket has, and none that another one holds.
  std::uint16_t port = 0;
  if (!ports.IsSet()) port = BindTo(fd.get(), 0);
  for (int i = 0; ports.IsSet() && port == 0 && i < ports.count(); ++i)
    port = BindTo(fd.get(), static_cast<std::uint16_t>(ports.first + i));
  if (port == 0) return Fail(ErrorCode::kAddressInUse, "no port of {} is free", ports.ToString());
  LetPortBeReused(fd.get());
  return HeldPort(std::move(fd), port);
}

}  // namespace rondo
