#include "rendezvous/launchers/pmi_wire.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace rondo {

Result<PmiReply> PmiWire::Ask(std::string_view request, std::string_view expected, const TakeReply& take,
                              TimePoint deadline) {
  const auto named = [&](const Error& error) {
    return Fail(
        error.With([&](ErrorDetails& details) { details.message = fmt::format("{}: {}", name_, details.message); }));
  };
  RONDO_TRY(Send(request, deadline));
  for (;;) {
    auto reply = take(unread_);
    if (!reply) return named(reply.error());
    if (*reply) {
      if (const Status good = (*reply)->Check(expected); !good) return named(good.error());
      return std::move(**reply);
    }
    RONDO_TRY(Await(POLLIN, deadline));
    std::array<char, 4096> buffer;
    const ssize_t got = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return Closed(got == 0 ? "the connection to the launcher is closed" : std::strerror(errno));
    unread_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

Status PmiWire::Send(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t put = send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put > 0) bytes.remove_prefix(static_cast<std::size_t>(put));
    if (put >= 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return Closed(std::strerror(errno));
    RONDO_TRY(Await(POLLOUT, deadline));
  }
  return {};
}

Status PmiWire::Await(short events, TimePoint deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock_->Now()).count();
    pollfd entry{.fd = fd_, .events = events, .revents = 0};
    if (poll(&entry, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000))) > 0) return {};
    if (left <= 0) return Fail(ErrorCode::kTimeout, "{}: the launcher did not answer in time", name_);
  }
}

tl::unexpected<Error> PmiWire::Closed(std::string_view how) const {
  return Fail(ErrorCode::kStoreLost, "{}: {}", name_, how);
}

}  // namespace rondo
