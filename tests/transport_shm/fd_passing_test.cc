// Tests how a process passes descriptors to another one, also to a process that has no free descriptor.
#include "transport/shm/fd_passing.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace rondo::shm {
namespace fd_passing_test {

// UBSan opens a pipe to check whether memory is readable, so it cannot run without a free descriptor.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitizerNeedsDescriptors = true;
#else
constexpr bool kSanitizerNeedsDescriptors = false;
#endif

TEST_CASE("Descriptors that a process has no room for are reported as its limit, not as a peer's bad message") {
  if (kSanitizerNeedsDescriptors) {
    MESSAGE("SKIP: no descriptor left: the sanitizer needs some itself");
    return;
  }
  std::array<int, 2> pair{};
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) == 0);
  const Fd here(pair[0]);
  const Fd there(pair[1]);
  std::array<std::byte, 8> message{};
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);

  for (const int room : {0, 1, 2}) {
    CAPTURE(room);
    REQUIRE(SendWith(there.get(), message, {STDIN_FILENO, STDERR_FILENO}));
    const int lowest_free = fcntl(STDERR_FILENO, F_DUPFD, 0);
    close(lowest_free);
    rlimit low = before;
    low.rlim_cur = static_cast<rlim_t>(lowest_free) + static_cast<rlim_t>(room);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
    const Result<Received> received = ReceiveWith(here.get(), message, 2);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(received.has_value() == (room == 2));
    if (received) continue;
    CHECK(received.error().code() == ErrorCode::kResource);
    const std::string due = std::to_string(room) + " of the 2 file descriptors that the other side passed";
    CHECK_MESSAGE(received.error().message().find(due) != std::string::npos, received.error().message());
  }
}

}  // namespace fd_passing_test
}  // namespace rondo::shm
