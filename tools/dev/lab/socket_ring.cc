// socket_ring: one host of a ring of plain TCP sockets. Each host sends to its right neighbour while it receives from
// its left neighbour. The program uses only two sockets and poll. The result is an upper limit for any ring all-reduce
// on these links.
//
// In each round a host sends --bytes bytes and receives as many. The next round begins when it has done both. All hosts
// share CLOCK_MONOTONIC (network namespaces of one machine) and get the same start time. So they warm up, count and
// stop at the same time. Every host prints
//   {"rounds": 238, "wall_s": 2.0003, "bytes": 239075328}
// bytes: received; wall_s: time between the first and the last count.
#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tools/dev/lab/stream_flags.h"

namespace rondo {
namespace {

constexpr int kWrongUsage = 2;
// The sockets stay open for this time after counting has ended, so that no neighbour loses its connection while it is
// still counting.
constexpr double kLingerSeconds = 0.2;
constexpr double kConnectSeconds = 10;

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void Die(std::string_view what) {
  fmt::print(stderr, "socket_ring: {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in AddressOf(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    fmt::print(stderr, "socket_ring: '{}' is not an IPv4 address\n", host);
    std::exit(kWrongUsage);
  }
  return address;
}

int NewSocket(const std::string& congestion_control) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) Die("socket");
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) Die("TCP_NODELAY");
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) Die("SO_REUSEADDR");
  if (!congestion_control.empty() && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion_control.data(),
                                                static_cast<socklen_t>(congestion_control.size())) != 0)
    Die("congestion control " + congestion_control);
  return fd;
}

struct Ring {
  int left;   // socket to receive from
  int right;  // socket to send to
};

// Connects to both neighbours. Each host listens before it connects, and tries again if its neighbour does not listen
// yet.
Ring ConnectRing(const std::string& own, const std::string& right, std::uint16_t port,
                 const std::string& congestion_control) {
  const int listener = NewSocket(congestion_control);
  const sockaddr_in here = AddressOf(own, port), there = AddressOf(right, port);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0) Die("bind to " + own);
  if (listen(listener, 1) != 0) Die("listen");
  const double until = Now() + kConnectSeconds;
  Ring ring{-1, -1};
  while (true) {
    ring.right = NewSocket(congestion_control);
    if (connect(ring.right, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0) break;
    if (errno != ECONNREFUSED || Now() > until) Die("connect to " + right);
    close(ring.right);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  pollfd waiting{listener, POLLIN, 0};
  if (poll(&waiting, 1, static_cast<int>(kConnectSeconds * 1e3)) != 1) {
    errno = ETIMEDOUT;
    Die("waiting for the left neighbour");
  }
  ring.left = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (ring.left < 0) Die("accept");
  close(listener);
  return ring;
}

struct Count {
  double time_s = 0;
  std::uint64_t bytes = 0;  // bytes received so far
  std::uint64_t rounds = 0;
};

// Exchanges bytes in rounds until the time `stop_s`. Returns one count for each time in `marks_s`, taken at that time
// or shortly after it.
std::array<Count, 2> Exchange(const Ring& ring, std::size_t bytes, std::array<double, 2> marks_s, double stop_s) {
  std::vector<char> out(bytes), in(bytes);
  std::size_t sent = 0, received = 0;  // in this round
  Count total;
  std::array<Count, 2> counts;
  std::size_t marked = 0;
  while (true) {
    total.time_s = Now();
    if (marked < marks_s.size() && total.time_s >= marks_s[marked]) counts[marked++] = total;
    if (total.time_s >= stop_s) return counts;
    std::array<pollfd, 2> ready{{{ring.left, POLLIN, 0}, {ring.right, POLLOUT, 0}}};
    if (received == bytes) ready[0].fd = -1;  // poll ignores negative descriptors
    if (sent == bytes) ready[1].fd = -1;
    if (poll(ready.data(), ready.size(), 10) < 0 && errno != EINTR) Die("poll");
    if (ready[0].revents != 0 && received < bytes) {
      const ssize_t n = recv(ring.left, &in[received], bytes - received, MSG_DONTWAIT);
      if (n > 0) received += static_cast<std::size_t>(n), total.bytes += static_cast<std::uint64_t>(n);
      const bool ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
      if (ended && marked < marks_s.size()) Die("the left neighbour ended before this host");
      if (ended) return counts;
    }
    if (ready[1].revents != 0 && sent < bytes) {
      const ssize_t n = send(ring.right, &out[sent], bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<std::size_t>(n);
      const bool ended = n < 0 && errno != EAGAIN && errno != EINTR;
      if (ended && marked < marks_s.size()) Die("the right neighbour ended before this host");
      if (ended) return counts;
    }
    if (sent == bytes && received == bytes) {
      sent = received = 0;
      ++total.rounds;
    }
  }
}

int Main(int argc, char** argv) {
  CLI::App app("One host of a ring of plain TCP sockets; prints bytes over wall time as JSON.", "socket_ring");
  StreamFlags flags;
  flags.AddTo(app);
  std::string own, right, congestion_control = "cubic";
  std::uint16_t port = 29600;
  double start_s = 0;
  app.add_option("--own", own, "This host's address")->required();
  app.add_option("--right", right, "The right neighbour's address")->required();
  app.add_option("--port", port, "Port on all hosts");
  app.add_option("--start", start_s, "Time at which all hosts start, in seconds of CLOCK_MONOTONIC")->required();
  app.add_option("--congestion-control", congestion_control,
                 "Congestion control of TCP; if empty, the system's default");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  const Ring ring = ConnectRing(own, right, port, congestion_control);
  if (Now() >= start_s) {
    fmt::print(stderr, "socket_ring: the time of --start passed before the hosts were connected\n");
    return 1;
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(start_s - Now()));
  const double from_s = start_s + flags.warm_seconds, to_s = from_s + flags.seconds;
  const auto [from, to] = Exchange(ring, flags.bytes, {from_s, to_s}, to_s + kLingerSeconds);
  fmt::print("{{\"rounds\": {}, \"wall_s\": {:.6f}, \"bytes\": {}}}\n", to.rounds - from.rounds,
             to.time_s - from.time_s, to.bytes - from.bytes);
  return 0;
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) { return rondo::Main(argc, argv); }
