// Tests ranges of ports, listening on a port of a range, and the description of a port's users.
#include "base/net/ports.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "base/net/fd.h"

namespace rondo {
namespace ports_test {

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

const sockaddr* Raw(const sockaddr_in& address) { return reinterpret_cast<const sockaddr*>(&address); }

ListenRequest Wanting(std::uint16_t port, PortRange ports = {}) {
  ListenRequest request;
  request.address = {*IpAddress::Parse("127.0.0.1"), port};
  request.ports = ports;
  request.backlog = 4;
  return request;
}

std::uint16_t PortOfSocket(const Fd& fd) {
  sockaddr_in address{};
  socklen_t bytes = sizeof address;
  REQUIRE(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  return ntohs(address.sin_port);
}

Fd Listening(std::uint16_t port = 0) {
  auto fd = ListenOnPort(Wanting(port));
  REQUIRE_MESSAGE(fd, fd.error().ToString());
  return std::move(*fd);
}

bool Says(const Error& error, const std::string& part) { return error.message().find(part) != std::string::npos; }

TEST_CASE("A range of ports is read as it is written, and anything else is refused with what was expected") {
  CHECK(*ParsePortRange("29500-29599") == PortRange{.first = 29500, .last = 29599});
  CHECK(*ParsePortRange("1-65535") == PortRange{.first = 1, .last = 65535});
  CHECK(*ParsePortRange("7") == PortRange{.first = 7, .last = 7});
  CHECK(PortRange{.first = 29500, .last = 29599}.ToString() == "29500-29599");
  CHECK(PortRange{.first = 29500, .last = 29599}.count() == 100);
  CHECK(PortRange{.first = 7, .last = 7}.ToString() == "7");
  CHECK(PortRange{}.ToString().empty());
  for (const char* wrong : {"", "-", "0-5", "5-", "-5", "6-5", "1-65536", "a-b", "1-2-3", " 1-2", "1 - 2", "70000"}) {
    CAPTURE(wrong);
    const auto range = ParsePortRange(wrong);
    REQUIRE_FALSE(range);
    CHECK(range.error().code() == ErrorCode::kInvalidArgument);
    CHECK(Says(range.error(), "expected FIRST-LAST"));
    CHECK(Says(range.error(), "'" + std::string(wrong) + "'"));
  }
}

TEST_CASE("What has a port is read off the kernel's tables: a listener, connections, or what they left behind") {
  const std::string tables =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1\n"
      "   1: 0100007F:9C48 0100007F:9C48 06 00000000:00000000 03:00001770 00000000     0        0 0 3\n"
      "   2: 0200000A:9C48 0300000A:1F90 06 00000000:00000000 03:00001770 00000000     0        0 0 3\n"
      "  sl  local_address                         remote_address                        st tx_queue rx_queue\n"
      "   0: 00000000000000000000000001000000:1F91 00000000000000000000000001000000:9C49 01 00000000:00000000\n";
  const PortUse listened = UseOfPortIn(tables, 0x1F90);
  CHECK(listened.listens);
  CHECK_FALSE(listened.connected);
  CHECK(listened.lingering == 0);
  const PortUse lingers = UseOfPortIn(tables, 40008);
  CHECK_FALSE(lingers.listens);
  CHECK_FALSE(lingers.connected);
  CHECK(lingers.lingering == 2);
  CHECK(UseOfPortIn(tables, 0x1F91).connected);
  const PortUse none = UseOfPortIn(tables, 1);
  CHECK((none.known && !none.listens && !none.connected && none.lingering == 0));
  for (const char* rest : {"", "\n\n", "   0:", "   0: x", "   0: 0100007F:1F90"})
    CHECK_FALSE(UseOfPortIn(rest, 1).listens);
}

TEST_CASE("A port that another socket listens on is said to be, and one that a socket is only bound to is not") {
  const Fd first = Listening();
  const std::uint16_t port = PortOfSocket(first);
  const auto second = ListenOnPort(Wanting(port));
  REQUIRE_FALSE(second);
  CHECK(second.error().code() == ErrorCode::kAddressInUse);
  CHECK(second.error().details().address == "127.0.0.1:" + std::to_string(port));
  CHECK(Says(second.error(), "another process listens on 127.0.0.1:" + std::to_string(port)));

  const Fd bound(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // this socket does not allow reuse of its port
  const sockaddr_in any = Loopback(0);
  REQUIRE(bind(bound.get(), Raw(any), sizeof any) == 0);
  const auto third = ListenOnPort(Wanting(PortOfSocket(bound)));
  REQUIRE_FALSE(third);
  CHECK(third.error().code() == ErrorCode::kAddressInUse);
  CHECK_FALSE(Says(third.error(), "another process listens"));
  CHECK(Says(third.error(), "does not listen on it"));
}

TEST_CASE("Listeners take the ports of a range, and the error names it when it is used up") {
  // Finds two adjacent free ports by holding the lower one.
  std::vector<Fd> held;
  std::uint16_t first = 0;
  while (first == 0) {
    REQUIRE(held.size() < 1000);
    held.push_back(Listening());
    const std::uint16_t port = PortOfSocket(held.back());
    if (port < 65535 && ListenOnPort(Wanting(static_cast<std::uint16_t>(port + 1)))) first = port;
  }
  held.clear();
  const PortRange range{.first = first, .last = static_cast<std::uint16_t>(first + 1)};
  const auto a = ListenOnPort(Wanting(0, range));
  const auto b = ListenOnPort(Wanting(0, range));
  REQUIRE((a && b));
  CHECK(PortOfSocket(*a) + PortOfSocket(*b) == 2 * first + 1);
  const auto c = ListenOnPort(Wanting(0, range));
  REQUIRE_FALSE(c);
  CHECK(c.error().code() == ErrorCode::kAddressInUse);
  CHECK(Says(c.error(), "none of the 2 ports " + range.ToString() + " (--ports, RONDO_PORTS) is free at 127.0.0.1"));
}

TEST_CASE("A port of a range that another socket holds is taken last") {
  const Fd held(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in any = Loopback(0);
  REQUIRE(bind(held.get(), Raw(any), sizeof any) == 0);
  LetPortBeReused(held.get());
  const std::uint16_t port = PortOfSocket(held);
  const PortRange range{.first = port, .last = static_cast<std::uint16_t>(port < 65000 ? port + 50 : port)};
  const auto first = ListenOnPort(Wanting(0, range));
  REQUIRE(first);
  if (range.count() > 1) CHECK(PortOfSocket(*first) != port);
  const auto there = ListenOnPort(Wanting(0, {.first = port, .last = port}));
  REQUIRE(there);  // the range has no other port
  CHECK(PortOfSocket(*there) == port);
}

TEST_CASE("A port of which a client of ours was given the use can be listened on, while it is connected and after") {
  const Fd server = Listening();
  const sockaddr_in there = Loopback(PortOfSocket(server));
  Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  LetPortBeReused(client.get());
  REQUIRE(connect(client.get(), Raw(there), sizeof there) == 0);
  Fd accepted(accept(server.get(), nullptr, nullptr));
  REQUIRE(accepted);
  const std::uint16_t port = PortOfSocket(client);
  CHECK(ListenOnPort(Wanting(port)));
  CHECK(UseOfPort(port).connected);
  client.Close();  // closed first, so that the client's end of the connection occupies the port for a while (TIME-WAIT)
  accepted.Close();
  CHECK(UseOfPort(port).lingering >= 1);  // other tests may have had connections from that port to other addresses
  CHECK(ListenOnPort(Wanting(port)));
}

TEST_CASE(
    "Where nothing keeps a port but connections that have ended, that is said, and waited for until the deadline") {
  const Fd server = Listening();
  const sockaddr_in there = Loopback(PortOfSocket(server));
  // This is not a socket of Rondo, so it does not allow reuse of its port.
  Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(connect(client.get(), Raw(there), sizeof there) == 0);
  Fd accepted(accept(server.get(), nullptr, nullptr));
  REQUIRE(accepted);
  const std::uint16_t port = PortOfSocket(client);
  const auto while_connected = ListenOnPort(Wanting(port));
  REQUIRE_FALSE(while_connected);
  CHECK(Says(while_connected.error(), "connections of other programs use that port as their local port"));
  client.Close();
  accepted.Close();
  ListenRequest request = Wanting(port);
  request.until = SteadyClock().Now() + std::chrono::milliseconds(250);
  const auto fd = ListenOnPort(request);
  REQUIRE_FALSE(fd);
  CHECK(fd.error().code() == ErrorCode::kAddressInUse);
  CHECK(Says(fd.error(), "no process listens there, but "));
  CHECK(Says(fd.error(), " keep the port for up to a minute"));
  CHECK_FALSE(Says(fd.error(), "another process"));
  // ListenOnPort has tried repeatedly until shortly before the deadline.
  CHECK(SteadyClock().Now() > request.until - std::chrono::milliseconds(101));
}

TEST_CASE("A socket that has connected to itself is found out, and closed so that nothing of it lingers") {
  Fd self(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in any = Loopback(0);
  REQUIRE(bind(self.get(), Raw(any), sizeof any) == 0);
  const std::uint16_t port = PortOfSocket(self);
  const int lingered = UseOfPort(port).lingering;
  const sockaddr_in itself = Loopback(port);
  REQUIRE(connect(self.get(), Raw(itself), sizeof itself) == 0);  // no socket listens there
  CHECK(IsConnectedToItself(self.get()));
  MakeCloseAbortive(self.get());
  self.Close();
  CHECK(UseOfPort(port).lingering == lingered);

  const Fd server = Listening();
  const sockaddr_in there = Loopback(PortOfSocket(server));
  const Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK_FALSE(IsConnectedToItself(client.get()));
  REQUIRE(connect(client.get(), Raw(there), sizeof there) == 0);
  CHECK_FALSE(IsConnectedToItself(client.get()));
}

TEST_CASE("An address that this machine lacks is no port in use") {
  ListenRequest request = Wanting(0);
  request.address.ip = *IpAddress::Parse("192.0.2.1");
  const auto fd = ListenOnPort(request);
  REQUIRE_FALSE(fd);
  CHECK(fd.error().code() == ErrorCode::kInvalidArgument);
  CHECK(Says(fd.error(), "192.0.2.1"));
}

}  // namespace ports_test
}  // namespace rondo
