// Plain blocking sockets on loopback, for tests that send any bytes through a proxy. Blocking calls end after
// kPatience.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/net/fd.h"

namespace rondo::fault {

inline constexpr std::chrono::seconds kPatience{20};

inline sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

// One end of a connection.
class Talker {
 public:
  Talker() = default;
  explicit Talker(Fd fd) : fd_(std::move(fd)) {
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  // Connects to a port of this host. If that fails, error() gives the reason and no other call works.
  static Talker To(std::uint16_t port) {
    Talker talker(Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
    const sockaddr_in address = Loopback(port);
    if (connect(talker.fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      talker.error_ = errno;
    }
    return talker;
  }

  int error() const { return error_; }  // errno of the last failure; 0: none
  explicit operator bool() const { return static_cast<bool>(fd_); }

  bool Say(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) {
        error_ = errno;
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void SayEnd() { shutdown(fd_.get(), SHUT_WR); }
  // Closes the connection with a reset.
  void Reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    fd_.Close();
  }
  // The bytes of one read. Empty: the stream has ended, or error() is set.
  std::string ReceiveSome() {
    std::string some(64 * 1024, '\0');
    const ssize_t got = recv(fd_.get(), some.data(), some.size(), 0);
    if (got < 0) error_ = errno;
    some.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return some;
  }
  // Reads exactly that many bytes, or fewer if the connection ends earlier.
  std::string Receive(std::size_t bytes) {
    std::string all(bytes, '\0');
    std::size_t done = 0;
    while (done < bytes) {
      const ssize_t got = recv(fd_.get(), all.data() + done, bytes - done, 0);
      if (got < 0) error_ = errno;
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    all.resize(done);
    return all;
  }
  // Reads until the end of the stream. If the end was orderly, error() is 0.
  std::string ReceiveAll() {
    std::string all;
    for (std::string some = ReceiveSome(); !some.empty(); some = ReceiveSome()) all += some;
    return all;
  }
  // Whether no byte arrives for a moment. Tests check in this way that bytes are held back, because no event reports
  // that.
  bool ReceivesNothing() {
    char byte = 0;
    const timeval moment{.tv_sec = 0, .tv_usec = 30'000};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    const bool nothing = recv(fd_.get(), &byte, 1, MSG_PEEK) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return nothing;
  }

 private:
  Fd fd_;
  int error_ = 0;
};

// A listening socket.
class Host {
 public:
  Host() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Loopback(0);
    REQUIRE(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(fd_.get(), 16) == 0);
    socklen_t bytes = sizeof address;
    REQUIRE(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
    port_ = ntohs(address.sin_port);
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  std::uint16_t port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  Talker Accept() {
    Fd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(fd);
    return Talker(std::move(fd));
  }
  void Close() { fd_.Close(); }

 private:
  Fd fd_;
  std::uint16_t port_ = 0;
};

}  // namespace rondo::fault
