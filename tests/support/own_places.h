// Resources that belong to one test alone: a folder and a port.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace rondo {

// A directory. The constructor makes it, and the destructor removes it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "rondo_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  std::string StoreUrl() const { return "file://" + File("store"); }

 private:
  std::string path_;
};

// A port of 127.0.0.1 on which no process listens, and that no other process gets while this object lives. A server
// that sets SO_REUSEADDR, as Rondo's servers do, can still listen on this port. (It is not enough that a port was free
// a moment ago, because it may be in use by now.)
class HeldPort {
 public:
  HeldPort() {
    REQUIRE(fd_ >= 0);
    const int on = 1;
    REQUIRE(setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    socklen_t bytes = sizeof address;
    REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
    port_ = ntohs(address.sin_port);
  }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  ~HeldPort() { close(fd_); }
  std::uint16_t port() const { return port_; }
  std::string StoreUrl() const { return "tcp://127.0.0.1:" + std::to_string(port_); }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::uint16_t port_ = 0;
};

}  // namespace rondo
