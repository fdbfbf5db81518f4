#include "base/net/ports.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/net/descriptors.h"

namespace rondo {
namespace {

constexpr int kLingerPauseMs = 100;

// The address as it is written before ":port".
std::string HostText(const IpAddress& ip) { return ip.is_v4() ? ip.ToString() : fmt::format("[{}]", ip.ToString()); }

Error ErrorAt(ErrorCode code, const std::string& address, std::string message) {
  ErrorDetails details;
  details.code = code;
  details.address = address;
  details.message = std::move(message);
  return Error(std::move(details));
}

// The result of one attempt: the socket, or errno.
struct Try {
  Fd fd;
  int error = 0;
  bool has_socket = false;
};

// Tries to listen on the port. With `shares` it succeeds even if other sockets with SO_REUSEADDR use the port.
Try TryPort(const ListenRequest& request, std::uint16_t port, bool shares) {
  Try attempt;
  const RawSocketAddress address = ToRaw({request.address.ip, port});
  Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  attempt.has_socket = static_cast<bool>(fd);
  if (!fd) {
    attempt.error = errno;
    return attempt;
  }
  if (shares) LetPortBeReused(fd.get());
  if (!request.address.ip.is_v4()) {
    const int only = request.both_families ? 0 : 1;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  }
  if (request.prepare) request.prepare(fd.get());
  const bool is_bound = bind(fd.get(), address.get(), address.bytes) == 0;
  if (is_bound) LetPortBeReused(fd.get());
  if (!is_bound || listen(fd.get(), request.backlog) != 0) {
    attempt.error = errno;
    return attempt;
  }
  attempt.fd = std::move(fd);
  return attempt;
}

// The error for every failure except a port in use.
Error Refused(const Try& attempt, const std::string& address) {
  const int error = attempt.error;
  ErrorCode code = ErrorCode::kResource;
  if (error == EADDRNOTAVAIL || error == EACCES || error == EPERM) code = ErrorCode::kInvalidArgument;
  if (!attempt.has_socket && error != EMFILE && error != ENFILE && error != ENOBUFS && error != ENOMEM)
    code = ErrorCode::kUnsupported;
  return ErrorAt(code, address, fmt::format("cannot listen on {}: {}", address, SystemWords(error)));
}

Error InUse(std::uint16_t port, const std::string& address) {
  const PortUse use = UseOfPort(port);
  std::string why;
  if (use.listens) {
    why = fmt::format("another process listens on {}; end it or choose another port (0: any free one)", address);
  } else if (use.connected) {
    why = fmt::format(
        "cannot listen on {}: connections of other programs use that port as their local port. The system takes local "
        "ports from {} (net.ipv4.ip_local_port_range); choose a port outside that range",
        address, EphemeralPorts().ToString());
  } else if (use.lingering > 0) {
    why = fmt::format(
        "cannot listen on {}: no process listens there, but ended connections ({}) keep the port for up to a minute "
        "(TIME-WAIT); try again later or choose another port (0: any free one)",
        address, use.lingering);
  } else if (use.known) {
    why = fmt::format(
        "cannot listen on {}: another socket is bound to that port but does not listen on it; choose another port (0: "
        "any free one)",
        address);
  } else {
    why =
        fmt::format("cannot listen on {}: {}; choose another port (0: any free one)", address, SystemWords(EADDRINUSE));
  }
  return ErrorAt(ErrorCode::kAddressInUse, address, std::move(why));
}

Error UsedUp(const ListenRequest& request, PortRange range) {
  const std::string host = HostText(request.address.ip);
  const std::string address = fmt::format("{}:{}", host, range.ToString());
  if (request.ports.IsSet()) {
    return ErrorAt(ErrorCode::kAddressInUse, address,
                   fmt::format("none of the {} ports {} (--ports, RONDO_PORTS) is free at {}; give a larger range",
                               range.count(), range.ToString(), host));
  }
  return ErrorAt(
      ErrorCode::kAddressInUse, address,
      fmt::format("no port is free at {}{}; widen the system's range, or give a range of ports to listen on (--ports "
                  "FIRST-LAST, RONDO_PORTS)",
                  host,
                  range.IsSet()
                      ? fmt::format(": the system takes ports from {} (net.ipv4.ip_local_port_range)", range.ToString())
                      : ""));
}

// Tries the ports of the range one after the other. In the second pass, bind also accepts ports that have open or
// closed (TIME-WAIT) connections, and ports that are bound without a listener. The system would not choose such ports
// itself, so they are tried last.
Result<Fd> ListenInRange(const ListenRequest& request, PortRange range) {
  // Each process starts at a different port, so that ranks of one host rarely try the same port.
  const int start = range.IsSet() ? static_cast<int>(getpid()) % range.count() : 0;
  for (const bool shares : {false, true}) {
    for (int i = 0; range.IsSet() && i < range.count(); ++i) {
      const auto port = static_cast<std::uint16_t>(range.first + (start + i) % range.count());
      Try attempt = TryPort(request, port, shares);
      if (attempt.fd) return std::move(attempt.fd);
      if (attempt.error != EADDRINUSE)
        return Fail(Refused(attempt, fmt::format("{}:{}", HostText(request.address.ip), port)));
    }
  }
  return Fail(UsedUp(request, range));
}

std::optional<std::uint16_t> PortNumber(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool whole = error == std::errc() && end == text.data() + text.size() && port > 0;
  return whole ? std::optional(port) : std::nullopt;
}

}  // namespace

std::string PortRange::ToString() const {
  if (!IsSet()) return "";
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

Result<PortRange> ParsePortRange(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = PortNumber(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : PortNumber(text.substr(dash + 1));
  if (!first || !last || *last < *first) {
    return Fail(ErrorCode::kInvalidArgument,
                "expected FIRST-LAST, two ports from 1 to 65535, such as 29500-29599, got '{}'", text);
  }
  return PortRange{.first = *first, .last = *last};
}

PortRange EphemeralPorts() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  PortRange range;
  if (!(file >> range.first >> range.last) || range.first == 0 || range.last < range.first) return {};
  return range;
}

PortUse UseOfPortIn(std::string_view tables, std::uint16_t port) {
  // Example of a line: "0: 0100007F:1F90 00000000:0000 0A ...": number, local address and port, remote address and
  // port, state.
  constexpr std::string_view kTimeWait = "06", kListen = "0A";
  PortUse use{.known = true};
  const std::string wanted = fmt::format("{:04X}", port);
  while (!tables.empty()) {
    std::string_view line = tables.substr(0, tables.find('\n'));
    tables.remove_prefix(std::min(tables.size(), line.size() + 1));
    const auto next_word = [&] {
      line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
      const std::string_view word = line.substr(0, line.find(' '));
      line.remove_prefix(word.size());
      return word;
    };
    next_word();
    const std::string_view local = next_word();
    next_word();
    const std::string_view state = next_word();
    const std::size_t colon = local.rfind(':');
    if (colon == std::string_view::npos || local.substr(colon + 1) != wanted) continue;
    use.listens = use.listens || state == kListen;
    use.connected = use.connected || (state != kListen && state != kTimeWait);
    use.lingering += state == kTimeWait ? 1 : 0;
  }
  return use;
}

PortUse UseOfPort(std::uint16_t port) {
  std::string tables;
  bool known = false;
  for (const char* const path : {"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"}) {
    std::ifstream file(path, std::ios::binary);
    known = known || file.is_open();
    tables.append(std::istreambuf_iterator<char>(file), {});
  }
  PortUse use = UseOfPortIn(tables, port);
  use.known = known;
  return use;
}

Result<Fd> ListenOnPort(const ListenRequest& request) {
  const std::uint16_t wanted = request.address.port;
  if (wanted == 0 && request.ports.IsSet()) return ListenInRange(request, request.ports);
  const std::string address = request.address.ToString();
  const SteadyClock steady;
  const Clock& clock = request.clock != nullptr ? *request.clock : steady;
  while (true) {
    Try attempt = TryPort(request, wanted, /*shares=*/true);
    if (attempt.fd) return std::move(attempt.fd);
    if (attempt.error != EADDRINUSE) return Fail(Refused(attempt, address));
    if (wanted == 0) return ListenInRange(request, EphemeralPorts());
    const PortUse use = UseOfPort(wanted);
    if (use.listens || use.connected || use.lingering == 0 ||
        clock.Now() + std::chrono::milliseconds(kLingerPauseMs) >= request.until)
      return Fail(InUse(wanted, address));
    poll(nullptr, 0, kLingerPauseMs);
  }
}

void LetPortBeReused(int fd) {
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

bool IsConnectedToItself(int fd) {
  const SocketAddress own = LocalSocketAddress(fd);
  return own.port != 0 && own == PeerSocketAddress(fd);
}

void MakeCloseAbortive(int fd) {
  const linger abortive{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &abortive, sizeof abortive);
}

std::string WhyNoLocalPort(int family) {
  const Fd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  const auto bytes = static_cast<socklen_t>(family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), bytes) == 0 || errno != EADDRINUSE) return "";
  const PortRange range = EphemeralPorts();
  return fmt::format(
      "no local port is free{}. Connections that have ended keep their local port for up to a minute. Widen the "
      "system's range of local ports by sysctl, or let ranks listen on ports outside that range (--ports FIRST-LAST, "
      "RONDO_PORTS)",
      range.IsSet() ? fmt::format(" in {} (net.ipv4.ip_local_port_range)", range.ToString()) : "");
}

}  // namespace rondo
