// Ranks as processes. A test without threads forks them, so that it can kill, stop and start them. Each process sends
// lines of text to the test. The test sends single bytes (Tell), for which a process can wait.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <utility>

namespace rondo {

// A process's side of the connection to the test.
class ToTest {
 public:
  explicit ToTest(int fd) : fd_(fd) {}
  void Say(const std::string& line) const {
    const std::string text = line + "\n";
    if (send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) _exit(3);
  }
  // Waits until the test calls Tell. Ends the process if the test has ended.
  void Await() const {
    char word;
    if (recv(fd_, &word, 1, 0) != 1) _exit(4);
  }
  // Whether the test has called Tell.
  bool HasSignal() const {
    char word;
    return recv(fd_, &word, 1, MSG_DONTWAIT) == 1;
  }

 private:
  int fd_;
};

class Process {
 public:
  // Forks a child that runs `body` and then ends without running the test's destructors. REQUIRES: this process has one
  // thread.
  explicit Process(const std::function<void(const ToTest&)>& body) {
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      close(pair[0]);
      body(ToTest(pair[1]));
      _exit(0);
    }
    close(pair[1]);
    fd_ = pair[0];
  }
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), fd_(std::exchange(other.fd_, -1)), said_(std::move(other.said_)) {}
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (fd_ >= 0) close(fd_);
  }

  pid_t pid() const { return pid_; }
  void Signal(int signal) const { REQUIRE(kill(pid_, signal) == 0); }
  void Kill() {
    Signal(SIGKILL);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  void Tell() const { CHECK(send(fd_, "!", 1, MSG_NOSIGNAL) == 1); }

  // The next line that the process sends; "" if it has ended without one, or sends nothing for a minute.
  std::string NextLine() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (;;) {
      if (const std::size_t end = said_.find('\n'); end != std::string::npos) {
        std::string line = said_.substr(0, end);
        said_.erase(0, end + 1);
        return line;
      }
      pollfd waits{fd_, POLLIN, 0};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
      if (left <= 0 || poll(&waits, 1, static_cast<int>(left)) <= 0) return "";
      char buffer[4096];
      const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
      if (got <= 0) return "";
      said_.append(buffer, static_cast<std::size_t>(got));
    }
  }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
  std::string said_;
};

}  // namespace rondo
