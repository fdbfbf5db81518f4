// A second process for a test, and a connection to it. It runs the same program, but only one of the cases named
// "child: ...". Those cases are not separate tests, but parts of the test that starts them.
#pragma once

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace rondo::cuda {

inline constexpr const char* kSocket = "RONDO_TEST_SOCKET";

// A connection to the other process. Messages are small, and a receiver waits at most one minute.
class Line {
 public:
  explicit Line(int socket) : socket_(socket) {
    const timeval most{.tv_sec = 60, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  }
  ~Line() { close(socket_); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  template <class T>
  void Send(const T& value) const {
    REQUIRE(send(socket_, &value, sizeof value, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof value));
  }
  template <class T>
  T Receive() const {
    T value{};
    REQUIRE(recv(socket_, &value, sizeof value, MSG_WAITALL) == static_cast<ssize_t>(sizeof value));
    return value;
  }

 private:
  int socket_;
};

struct Pair {
  Pair() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0); }
  int ends[2] = {-1, -1};
};

// kContained: the process is the first in a new process namespace, like the processes of containers.
enum class Where { kHere, kContained };
// Whether this process may create a new process namespace.
inline bool MayContain() {
  const pid_t tries = fork();
  if (tries == 0) _exit(unshare(CLONE_NEWPID) == 0 ? 0 : 1);
  int status = 0;
  return tries > 0 && waitpid(tries, &status, 0) == tries && status == 0;
}

// The other process, from the side of the process that started it.
class Other {
 public:
  explicit Other(const char* test_case, Where where = Where::kHere) : line(pair_.ends[0]), process_(fork()) {
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      close(pair_.ends[0]);
      if (where == Where::kContained) Contain();
      setenv(kSocket, std::to_string(pair_.ends[1]).c_str(), 1);
      const std::string which = std::string("--test-case=") + test_case;
      execl("/proc/self/exe", "the test again", which.c_str(), "--no-skip", "--minimal", nullptr);
      _exit(127);
    }
    close(pair_.ends[1]);
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  int Exit() {
    int status = 0;
    REQUIRE(waitpid(process_, &status, 0) == process_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  // Continues in a child process, which is the first in a new process namespace.
  static void Contain() {
    if (unshare(CLONE_NEWPID) != 0) _exit(126);
    const pid_t first = fork();
    if (first == 0) return;
    int status = 0;
    const bool is_over = first > 0 && waitpid(first, &status, 0) == first && WIFEXITED(status);
    _exit(is_over ? WEXITSTATUS(status) : 125);
  }

  Pair pair_;

 public:
  Line line;

 private:
  pid_t process_;
};

// Returns the socket to the process that started this one, or -1. Called in the other process.
inline int SocketOfChild() {
  const char* const number = std::getenv(kSocket);
  return number == nullptr ? -1 : static_cast<int>(std::strtol(number, nullptr, 10));
}

}  // namespace rondo::cuda
