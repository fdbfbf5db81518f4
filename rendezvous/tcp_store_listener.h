// The socket on which a TCP store's server listens. For tcp_store_server.cc.
#pragma once

#include <unistd.h>

#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "rendezvous/tcp_store_server.h"

namespace rondo {

// A descriptor until somebody else takes it.
class OwnedFd {
 public:
  explicit OwnedFd(int fd) : fd_(fd) {}
  ~OwnedFd() {
    if (fd_ >= 0) close(fd_);
  }
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// What options.listen_fd, host and port name: an adopted descriptor, the host's first address, or every interface: [::]
// serves IPv4 too, 0.0.0.0 where IPv6 is off. Errors: TcpStoreServer::Start.
Result<OwnedFd> OpenListener(const TcpStoreServer::Options& options, const Clock& clock);

}  // namespace rondo
