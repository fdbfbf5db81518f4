// Tests which addresses are published, and in which order they are tried. The tested functions are pure, so the
// machines can be invented.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/net/ip.h"
#include "base/random.h"
#include "tests/support/file_tree.h"
#include "transport/tcp/address.h"
#include "transport/tcp/interfaces.h"
#include "transport/transport.h"

namespace rondo::tcp {
namespace addresses_test {

IpAddress Ip(std::string_view text) {
  const auto ip = IpAddress::Parse(text);
  REQUIRE(ip);
  return *ip;
}

LocalAddress Local(std::string interface, std::string_view ip, int prefix_bits, bool up = true,
                   std::vector<std::string> devices = {}) {
  return {std::move(interface), std::move(devices), Ip(ip), prefix_bits, up};
}

// A host as in clusters. It has Ethernet, InfiniBand, Docker, an interface that is down, and link-local IPv6.
std::vector<LocalAddress> Machine() {
  return {
      Local("lo", "127.0.0.1", 8),
      Local("lo", "::1", 128),
      Local("docker0", "172.17.0.1", 16),
      Local("eth0", "10.1.0.5", 16),
      Local("eth0", "fd00::5", 64),
      Local("eth0", "fe80::5%2", 64),
      Local("eth1", "10.2.0.5", 16, /*up=*/false),
      Local("ib0", "10.9.0.5", 24, true, {"mlx5_0"}),
      Local("veth12", "169.254.7.1", 16),
  };
}

std::vector<std::string> Names(const Result<std::vector<LocalAddress>>& chosen) {
  REQUIRE_MESSAGE(chosen, chosen.error().ToString());
  std::vector<std::string> names;
  for (const LocalAddress& address : *chosen) names.push_back(address.ip.ToString());
  return names;
}

using Texts = std::vector<std::string>;

TEST_CASE("addresses are printed as they are written") {
  for (const char* text : {"10.0.0.1", "::1", "fd00::5", "fe80::5%2", "255.255.255.255"})
    CHECK(Ip(text).ToString() == text);
  CHECK(Ip("::ffff:10.0.0.1").ToString() == "10.0.0.1");
  CHECK(SocketAddress{Ip("10.0.0.1"), 80}.ToString() == "10.0.0.1:80");
  CHECK(SocketAddress{Ip("fe80::1%3"), 80}.ToString() == "[fe80::1%3]:80");
  for (const char* text : {"", "10.0.0", "10.0.0.1%2", "fe80::1%", "fe80::1%x", "host", "1.2.3.4.5", "10.0.0.1 "}) {
    CAPTURE(text);
    CHECK_FALSE(IpAddress::Parse(text));
  }
}

TEST_CASE("prefixes are compared to the bit") {
  CHECK(Ip("10.1.2.3").SharesPrefix(Ip("10.1.9.9"), 16));
  CHECK_FALSE(Ip("10.1.2.3").SharesPrefix(Ip("10.1.9.9"), 21));
  CHECK(Ip("10.1.8.3").SharesPrefix(Ip("10.1.15.9"), 21));
  CHECK_FALSE(Ip("10.1.7.3").SharesPrefix(Ip("10.1.8.9"), 21));
  CHECK(Ip("10.1.2.3").SharesPrefix(Ip("99.0.0.0"), 0));
  CHECK_FALSE(Ip("10.1.2.3").SharesPrefix(Ip("10.1.2.4"), 32));
  CHECK(Ip("fd00::1").SharesPrefix(Ip("fd00::ffff"), 64));
  CHECK_FALSE(Ip("10.1.2.3").SharesPrefix(Ip("::1"), 0));
}

TEST_CASE("a socket address survives the trip through the kernel's form") {
  for (const char* text : {"10.0.0.1", "::1", "fe80::5%2"}) {
    const SocketAddress address{Ip(text), 4711};
    CHECK(FromRaw(ToRaw(address).get()) == address);
  }
}

TEST_CASE("without wishes the best addresses come first and loopback last") {
  CHECK(Names(ChooseAddresses(Machine(), {}, "")) == Texts{"10.1.0.5", "10.9.0.5", "fd00::5", "172.17.0.1",
                                                           "169.254.7.1", "fe80::5%2", "10.2.0.5", "127.0.0.1", "::1"});
}

TEST_CASE("interface expressions choose by prefix, exact name, device and network, or exclude") {
  const auto chosen = [](std::string_view expression) { return Names(ChooseAddresses(Machine(), {}, expression)); };
  CHECK(chosen("eth0") == Texts{"10.1.0.5", "fd00::5", "fe80::5%2"});
  CHECK(chosen("eth") == Texts{"10.1.0.5", "fd00::5", "fe80::5%2", "10.2.0.5"});
  CHECK(chosen("ib0,eth1") == Texts{"10.9.0.5", "10.2.0.5"});
  CHECK(chosen("=ib0") == Texts{"10.9.0.5"});
  CHECK(chosen("mlx5_0") == Texts{"10.9.0.5"});
  CHECK(chosen("10.0.0.0/8") == Texts{"10.1.0.5", "10.9.0.5", "10.2.0.5"});
  CHECK(chosen("10.9.0.0/16,fd00::/8") == Texts{"10.9.0.5", "fd00::5"});
  CHECK(chosen("10.9.0.5") == Texts{"10.9.0.5"});
  CHECK(chosen("^docker,lo,veth,eth1") == Texts{"10.1.0.5", "10.9.0.5", "fd00::5", "fe80::5%2"});
  // No interface is named exactly "veth".
  CHECK(chosen("^=docker0,lo,veth,eth0") == Texts{"10.9.0.5", "169.254.7.1", "10.2.0.5"});
  CHECK(chosen("^172.16.0.0/12,127.0.0.0/8,::1,169.254.0.0/16,eth") == Texts{"10.9.0.5"});
}

TEST_CASE("a wrong interface expression is refused with the item that is wrong") {
  struct Wrong {
    std::string expression, culprit;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {"eth0,,ib0", "empty item"},
           {"eth0,", "empty item"},
           {"^", "empty item"},
           {"eth0,^lo", "^lo"},
           {"10.0.0.0/33", "10.0.0.0/33"},
           {"10.0.0.0/", "10.0.0.0/"},
           {"10.0.0.0/x", "10.0.0.0/x"},
           {"ib0/8", "ib0/8"},
           {"wlan", "wlan"},  // no interface matches
       }) {
    CAPTURE(wrong.expression);
    const auto chosen = ChooseAddresses(Machine(), {}, wrong.expression);
    REQUIRE_FALSE(chosen);
    CHECK(chosen.error().code() == ErrorCode::kInvalidArgument);
    CHECK(chosen.error().message().find(wrong.culprit) != std::string::npos);
  }
}

TEST_CASE("forced addresses are taken as given, and must exist") {
  CHECK(Names(ChooseAddresses(Machine(), {"10.9.0.5", "10.1.0.5"}, "eth")) == Texts{"10.9.0.5", "10.1.0.5"});
  CHECK(Names(ChooseAddresses(Machine(), {"fe80::5"}, "")) == Texts{"fe80::5%2"});
  CHECK(Names(ChooseAddresses(Machine(), {"127.0.0.9"}, "")) == Texts{"127.0.0.9"});
  for (const char* wrong : {"10.9.0.6", "ib0", "fe80::5%3"}) {
    CAPTURE(wrong);
    const auto chosen = ChooseAddresses(Machine(), {wrong}, "");
    REQUIRE_FALSE(chosen);
    CHECK(chosen.error().code() == ErrorCode::kInvalidArgument);
    CHECK(chosen.error().message().find(wrong) != std::string::npos);
    // The error lists the existing interfaces.
    CHECK(chosen.error().message().find("10.1.0.5 (eth0)") != std::string::npos);
  }
}

TEST_CASE("this machine has at least a loopback address") {
  const auto all = EnumerateInterfaces();
  REQUIRE_MESSAGE(all, all.error().ToString());
  CHECK(std::any_of(all->begin(), all->end(), [](const LocalAddress& a) { return a.ip.IsLoopback(); }));
}

// ---- the published form ----

TcpAddress AddressOf(const std::vector<LocalAddress>& all, std::string host_id) {
  const auto chosen = ChooseAddresses(all, {}, "");
  REQUIRE(chosen);
  TcpAddress address{"node-a", std::move(host_id), "instance-1", {}};
  for (const LocalAddress& local : *chosen) {
    address.candidates.push_back({{local.ip, 4711}, local.prefix_bits, Classify(local), local.interface});
  }
  return address;
}

TEST_CASE("an address survives encoding") {
  TcpAddress address = AddressOf(Machine(), "boot/net:1");
  address.candidates.front().mbps = 400'000;
  const std::string text = Encode(address);
  CHECK(text.size() <= kMaxAddressBytes);
  const auto decoded = DecodeTcpAddress(text);
  REQUIRE_MESSAGE(decoded, decoded.error().ToString());
  CHECK(*decoded == address);
}

TEST_CASE("the largest address fits") {
  TcpAddress address{std::string(255, 'h'), std::string(255, 'i'), std::string(255, 'n'), {}};
  for (std::size_t i = 0; i < kMaxCandidates; ++i) {
    address.candidates.push_back({{Ip("fe80::1%7"), 1}, 64, AddressClass::kLinkLocal, std::string(200, 'x')});
  }
  CHECK(DecodeTcpAddress(Encode(address)));
}

TEST_CASE("every cut and every wrong byte of an address is refused or decodes to something bounded") {
  const std::string good = Encode(AddressOf(Machine(), "boot/net:1"));
  for (std::size_t size = 0; size < good.size(); ++size) {
    const auto decoded = DecodeTcpAddress(std::string_view(good).substr(0, size));
    CAPTURE(size);
    REQUIRE_FALSE(decoded);
    CHECK((decoded.error().code() == ErrorCode::kInvalidArgument ||
           decoded.error().code() == ErrorCode::kVersionMismatch));
  }
  CHECK_FALSE(DecodeTcpAddress(good + "x"));
  CHECK_FALSE(DecodeTcpAddress(std::string(kMaxAddressBytes + 1, 'R')));
  const std::uint64_t seed = 20240607;
  CAPTURE(seed);
  Random random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (std::uint64_t i = random.Between(1, 4); i > 0; --i)
      bad[random.Below(bad.size())] = static_cast<char>(random.Next());
    const auto decoded = DecodeTcpAddress(bad);
    if (decoded) CHECK(decoded->candidates.size() <= kMaxCandidates);
  }
}

TEST_CASE("an interface with a longer name than an address ever has is refused") {
  const TcpAddress address{"a", "", "n", {{{Ip("10.0.0.1"), 1}, 24, AddressClass::kGlobal, std::string(32, 'x')}}};
  std::string text = Encode(address);
  CHECK(DecodeTcpAddress(text)->candidates.front().interface == std::string(32, 'x'));
  text[text.size() - 33] = 33;
  const auto decoded = DecodeTcpAddress(text + 'x');
  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().message() ==
        "candidate 0 of a TCP address has an interface name of 33 bytes; at most 32 are allowed");
}

TEST_CASE("an address of another version is distinguished") {
  std::string text = Encode(AddressOf(Machine(), ""));
  text[3] = 9;
  const auto decoded = DecodeTcpAddress(text);
  REQUIRE_FALSE(decoded);
  CHECK(decoded.error().code() == ErrorCode::kVersionMismatch);
  CHECK(decoded.error().message().find('9') != std::string::npos);
}

// ---- the order of attempts ----

Texts Order(const TcpAddress& self, const std::vector<LocalAddress>& local, const TcpAddress& remote) {
  Texts order;
  for (const Attempt& attempt : OrderAttempts(self, local, remote)) {
    order.push_back(attempt.at.ip.ToString() + " " + attempt.reason +
                    (attempt.interface.empty() ? "" : " " + attempt.interface));
  }
  return order;
}

TEST_CASE("on one host loopback is tried first") {
  const TcpAddress self = AddressOf(Machine(), "boot/net:1");
  const Texts order = Order(self, Machine(), AddressOf(Machine(), "boot/net:1"));
  REQUIRE(order.size() == Machine().size());
  CHECK(order[0] == "127.0.0.1 same host lo");
  CHECK(order[1] == "::1 same host lo");
  CHECK(order[2] == "10.1.0.5 same host eth0");
}

TEST_CASE("rails take addresses that are equally good in turn, and the others stand behind for all of them") {
  const std::vector<LocalAddress> here{Local("ib0", "10.9.0.1", 24), Local("ib1", "10.9.1.1", 24)};
  const std::vector<LocalAddress> there{Local("ib0", "10.9.0.2", 24), Local("ib1", "10.9.1.2", 24),
                                        Local("eth0", "192.168.1.2", 24), Local("ib0", "fd00::2", 64)};
  const std::vector<Attempt> order = OrderAttempts(AddressOf(here, "a"), here, AddressOf(there, "b"));
  const auto on_rail = [&](std::uint32_t rail) {
    Texts texts;
    for (const Attempt& attempt : InTurn(order, rail)) texts.push_back(attempt.at.ip.ToString());
    return texts;
  };
  const Texts first{"10.9.0.2", "10.9.1.2", "192.168.1.2", "fd00::2"};
  CHECK(on_rail(0) == first);
  CHECK(on_rail(1) == Texts{"10.9.1.2", "10.9.0.2", "192.168.1.2", "fd00::2"});
  CHECK(on_rail(2) == first);
  CHECK(InTurn({}, 3).empty());
  // Within a host the kernel treats all addresses in the same way. Loopback stays first unless the options select other
  // addresses.
  const std::vector<Attempt> local = OrderAttempts(AddressOf(Machine(), "a"), Machine(), AddressOf(Machine(), "a"));
  CHECK(InTurn(local, 1).front().at.ip.ToString() == "127.0.0.1");
}

TEST_CASE("of chosen addresses each connection starts from the one in whose subnet it ends, else from its rail's") {
  const auto own = AddressOf({Local("ib0", "10.9.0.1", 24), Local("ib1", "10.9.1.1", 24)}, "a").candidates;
  const auto source = [&](std::string_view to, std::uint32_t rail) {
    const auto ip = SourceFor(Ip(to), own, rail);
    return ip ? ip->ToString() : "any";
  };
  for (const std::uint32_t rail : {0U, 1U}) {
    // the source address is in the subnet of the destination, even if the rail belongs to the other network
    CHECK(source("10.9.0.2", rail) == "10.9.0.1");
    CHECK(source("10.9.1.2", rail) == "10.9.1.1");
    CHECK(source("127.0.0.1", rail) == "any");
  }
  CHECK(source("192.168.1.2", 0) == "10.9.0.1");
  CHECK(source("192.168.1.2", 3) == "10.9.1.1");
  CHECK(!SourceFor(Ip("10.9.0.2"), {}, 0));
  const auto twins = AddressOf({Local("ib0", "10.9.0.1", 16), Local("ib1", "10.9.1.1", 16)}, "a").candidates;
  // If two addresses are equally good, the rail's address is used.
  CHECK(SourceFor(Ip("10.9.0.2"), twins, 1)->ToString() == "10.9.1.1");
}

TEST_CASE("between hosts a shared subnet comes first, loopback never, and a container bridge is no shared subnet") {
  const std::vector<LocalAddress> here{Local("lo", "127.0.0.1", 8), Local("docker0", "172.17.0.1", 16),
                                       Local("ib0", "10.9.0.77", 24), Local("eth0", "192.168.1.2", 24),
                                       Local("eth0", "fe80::7%4", 64)};
  CHECK(Order(AddressOf(here, "boot/net:2"), here, AddressOf(Machine(), "boot/net:1")) ==
        Texts{"10.9.0.5 same subnet ib0", "10.1.0.5 routed", "fd00::5 routed", "172.17.0.1 routed",
              "169.254.7.1 routed", "10.2.0.5 routed", "fe80::5%4 link-local eth0"});
}

TEST_CASE("where a host is unknown loopback is tried, but last") {
  const Texts order = Order(AddressOf(Machine(), ""), Machine(), AddressOf(Machine(), "boot/net:1"));
  REQUIRE(order.size() >= 2);
  CHECK(order.front() == "10.1.0.5 same subnet eth0");
  CHECK(order[order.size() - 2] == "127.0.0.1 loopback lo");
}

// Returns `address`, with the speed of its interface set to `mbps`.
LocalAddress At(LocalAddress address, std::uint32_t mbps) {
  address.mbps = mbps;
  return address;
}

TcpAddress Published(const std::vector<LocalAddress>& all, std::string host_id) {
  TcpAddress address = AddressOf(all, std::move(host_id));
  for (Candidate& candidate : address.candidates)
    for (const LocalAddress& local : all)
      if (local.ip == candidate.at.ip) candidate.mbps = local.mbps;
  return address;
}

// The addresses of one of two hosts, which are connected by a slow and a fast network. The slow network is listed
// first.
std::vector<LocalAddress> TwoNetworks(int host, std::uint32_t slow_mbps, std::uint32_t fast_mbps) {
  const std::string last = std::to_string(host);
  return {At(Local("eth0", "10.0.0." + last, 24), slow_mbps), At(Local("ib0", "192.168.9." + last, 24), fast_mbps),
          Local("docker0", "172.17.0.1", 16)};
}

TEST_CASE("of two networks between hosts the faster one is taken, the reason printed and the other one named") {
  const auto here = TwoNetworks(1, 1000, 100'000), there = TwoNetworks(2, 1000, 100'000);
  CHECK(Names(ChooseAddresses(here, {}, "")) == Texts{"192.168.9.1", "10.0.0.1", "172.17.0.1"});
  const auto attempts = OrderAttempts(Published(here, "a"), here, Published(there, "b"));
  REQUIRE(attempts.size() == 3);
  CHECK(attempts[0].at.ip.ToString() == "192.168.9.2");
  CHECK(attempts[1].at.ip.ToString() == "10.0.0.2");
  const NetworkChoice choice = DescribeChoice(attempts, Ip("192.168.9.2"));
  CHECK(choice.text == "the fastest of 2 networks, 100 Gbit/s; also 10.0.0.2 via eth0, 1 Gbit/s");
  CHECK_FALSE(choice.speeds_unknown);
  CHECK(DescribeChoice(attempts, Ip("10.0.0.2")).text ==
        "a faster network did not connect in time, 1 Gbit/s; also 192.168.9.2 via ib0, 100 Gbit/s");
  CHECK(DescribeNetworks(Published(here, "a").candidates).text ==
        "2 networks, tried in this order: ib0 (100 Gbit/s), then eth0 (1 Gbit/s)");
}

TEST_CASE("a network is as fast as the slower of its two ends") {
  const auto here = TwoNetworks(1, 25'000, 100'000), there = TwoNetworks(2, 25'000, 10'000);
  const auto attempts = OrderAttempts(Published(here, "a"), here, Published(there, "b"));
  CHECK(attempts.front().at.ip.ToString() == "10.0.0.2");
  CHECK(attempts.front().mbps == 25'000);
}

TEST_CASE("where not all speeds are known the machine's order stays, and the choice says that another may be faster") {
  for (const auto& [slow, fast] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 0}, {0, 100'000}, {1000, 0}}) {
    const auto here = TwoNetworks(1, slow, fast), there = TwoNetworks(2, slow, fast);
    const auto attempts = OrderAttempts(Published(here, "a"), here, Published(there, "b"));
    CHECK(attempts.front().at.ip.ToString() == "10.0.0.2");
    const NetworkChoice choice = DescribeChoice(attempts, Ip("10.0.0.2"));
    CHECK(choice.speeds_unknown);
    CHECK(choice.text.find("one of 2 networks whose speeds are not all known") == 0);
    CHECK(choice.text.find("also 192.168.9.2 via ib0, ") != std::string::npos);
    CHECK(DescribeNetworks(Published(here, "a").candidates).speeds_unknown);
  }
}

TEST_CASE("there is no choice where one network leads to a peer, whatever its families, bridges and own address") {
  const std::vector<LocalAddress> here{Local("eth0", "10.0.0.1", 24), Local("eth0", "fd00::1", 64),
                                       Local("docker0", "172.17.0.1", 16), Local("lo", "127.0.0.1", 8)};
  std::vector<LocalAddress> there = here;
  there[0] = Local("eth0", "10.0.0.2", 24);
  there[1] = Local("eth0", "fd00::2", 64);
  const auto attempts = OrderAttempts(Published(here, "a"), here, Published(there, "b"));
  CHECK(DescribeChoice(attempts, Ip("10.0.0.2")).text.empty());
  CHECK(DescribeChoice(attempts, Ip("10.0.0.99")).text.empty());
  CHECK(DescribeChoice({}, Ip("10.0.0.2")).text.empty());
  CHECK(DescribeNetworks(Published(here, "a").candidates).text.empty());
  const auto same_host = OrderAttempts(Published(here, "a"), here, Published(here, "a"));
  CHECK(DescribeChoice(same_host, Ip("10.0.0.1")).text.empty());
}

TEST_CASE("rails take networks in turn that are equally fast, and never the slow one") {
  const auto order = [](std::uint32_t first, std::uint32_t second, std::uint32_t rail) {
    const auto here = TwoNetworks(1, first, second), there = TwoNetworks(2, first, second);
    return InTurn(OrderAttempts(Published(here, "a"), here, Published(there, "b")), rail).front().at.ip.ToString();
  };
  CHECK(order(100'000, 100'000, 0) == "10.0.0.2");
  CHECK(order(100'000, 100'000, 1) == "192.168.9.2");
  CHECK(order(1000, 100'000, 0) == "192.168.9.2");
  CHECK(order(1000, 100'000, 1) == "192.168.9.2");
}

TEST_CASE("the speed of a wire is its driver's word, that of its RDMA device, or that of what a VLAN stands on") {
  testing::FileTree sys;
  sys.File("/class/net/eth0/device/vendor").File("/class/net/eth0/speed", "25000");
  sys.File("/class/net/bond0/bonding/mode").File("/class/net/bond0/speed", "50000");
  sys.File("/class/net/ib0/device/infiniband/mlx5_0/x")
      .File("/class/net/ib0/speed", "-1")
      .File("/class/net/ib0/dev_port", "1");
  sys.File("/class/infiniband/mlx5_0/ports/1/rate", "40 Gb/sec (4X QDR)");
  sys.File("/class/infiniband/mlx5_0/ports/2/rate", "100 Gb/sec (4X EDR)");
  sys.File("/class/net/eth0.7/lower_eth0/x").File("/class/net/eth0.7/speed", "25000");
  sys.File("/class/net/br0/lower_eth0.7/x").File("/class/net/br0/lower_veth0/x");
  sys.File("/class/net/veth0/speed", "10000");
  sys.File("/class/net/ens5/device/vendor").File("/class/net/ens5/speed", "-1");
  CHECK(MbpsOf("eth0", sys.root()) == 25'000);
  CHECK(MbpsOf("bond0", sys.root()) == 50'000);
  CHECK(MbpsOf("ib0", sys.root()) == 100'000);
  CHECK(MbpsOf("eth0.7", sys.root()) == 25'000);
  CHECK(MbpsOf("br0", sys.root()) == 25'000);
  for (const char* unknown : {"veth0", "ens5", "none"}) CHECK(MbpsOf(unknown, sys.root()) == 0);
  CHECK(DescribeSpeed(0) == "speed unknown");
  CHECK(DescribeSpeed(2500) == "2500 Mbit/s");
  CHECK(DescribeSpeed(400'000) == "400 Gbit/s");
}

TEST_CASE("no speed is known of an interface without a device, nor of one that is not there") {
  CHECK(LinkOf("lo").line_gbps == 0);
  CHECK(LinkOf("lo").device == "lo");
  CHECK(LinkOf("lo").mtu_bytes > 0);
  for (const char* none : {"no such interface", ""}) {
    CHECK(LinkOf(none).device.empty());
    CHECK(LinkOf(none).mtu_bytes == 0);
    CHECK(LinkOf(none).line_gbps == 0);
  }
}

}  // namespace addresses_test
}  // namespace rondo::tcp
