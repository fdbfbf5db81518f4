// Tests which congestion control algorithm a connection uses, and from which moment on.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "tests/transport_tcp/world.h"
#include "transport/tcp/socket.h"

namespace rondo::test {
namespace congestion_control_test {

const SocketAddress kLoopback{*IpAddress::Parse("127.0.0.1"), 0};

std::string CongestionControl(int fd) {
  std::array<char, 32> name{};
  socklen_t bytes = name.size() - 1;
  CHECK(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &bytes) == 0);
  return name.data();
}

// An algorithm that this process may set, and that is not the default of sockets.
std::string AnotherThanTheSystems() {
  for (const char* name : {"reno", "cubic"}) {
    if (tcp::SystemCongestionControl() == name) continue;
    const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (tcp::SetCongestionControl(fd.get(), {name}) == name) return name;
  }
  MESSAGE("skipped: this machine allows only the system's congestion control");
  return {};
}

// How the two ends of one connection describe it.
std::array<std::string, 2> Paths(const std::function<void(int, TcpOptions&)>& adjust) {
  World world(2, [&](int rank, TcpOptions& options) {
    options.addresses = {"127.0.0.1"};
    adjust(rank, options);
  });
  world.OpenAll();
  const Lane& lane = world.Open(0, 1);
  world.Open(1, 0);
  REQUIRE(world.PollUntil([&] { return lane.state() == LaneState::kOpen; }));
  return {world[0].DescribePeer(1), world[1].DescribePeer(0)};
}

TEST_CASE("a connection has its congestion control from the start: who was bbr's first stays paced") {
  const std::string other = AnotherThanTheSystems();
  if (other.empty()) return;
  const auto listener = tcp::Listen(kLoopback, 1, false, {other});
  REQUIRE(listener);
  const auto client = tcp::StartConnect(LocalSocketAddress(listener->get()), nullptr, 0, {other});
  REQUIRE(client);
  CHECK(CongestionControl(client->get()) == other);
  pollfd waiting{listener->get(), POLLIN, 0};
  REQUIRE(poll(&waiting, 1, 60'000) == 1);
  const Fd accepted(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(accepted);
  CHECK(CongestionControl(accepted.get()) == other);
}

TEST_CASE("within a host both ends have the first that may be set of local_congestion_control") {
  const std::string other = AnotherThanTheSystems();
  if (other.empty()) return;
  for (const std::string& path : Paths([&](int, TcpOptions& options) {
         options.local_congestion_control = {"nosuch", other};
       })) {
    CAPTURE(path);
    CHECK(path.find("(same host; " + other + "; nosuch: ") != std::string::npos);
  }
}

TEST_CASE("between hosts both ends have the system's, or what remote_congestion_control says") {
  const std::string other = AnotherThanTheSystems();
  if (other.empty()) return;
  for (const bool is_set : {false, true}) {
    for (const std::string& path : Paths([&](int, TcpOptions& options) {
           options.host_id = {};  // with no host id, loopback counts as a connection between hosts
           options.local_congestion_control = {other};
           if (is_set) options.remote_congestion_control = {other};
         })) {
      CAPTURE(path);
      CHECK(path.ends_with("; " + (is_set ? other : tcp::SystemCongestionControl()) + ")"));
    }
  }
}

}  // namespace congestion_control_test
}  // namespace rondo::test
