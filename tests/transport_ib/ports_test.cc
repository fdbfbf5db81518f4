// Tests which port and GID a user's setting selects, on invented machines.
#include "transport/ib/ports.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace rondo::ib {
namespace ports_test {

Gid RoceGid(int index, Gid::Type type, const std::string& ip, const std::string& interface) {
  Gid gid{.index = index, .type = type, .interface = interface};
  const auto parsed = IpAddress::Parse(ip);
  REQUIRE(parsed);
  if (parsed->is_v4()) {
    gid.bytes[10] = gid.bytes[11] = std::byte{0xff};  // the prefix of an IPv4 address mapped into IPv6
    std::copy(parsed->bytes().begin(), parsed->bytes().end(), gid.bytes.begin() + 12);
  } else {
    std::copy(parsed->bytes().begin(), parsed->bytes().end(), gid.bytes.begin());
  }
  return gid;
}

// A port with a GID table in the kernel's order: link-local addresses first, and each address once for each RoCE
// version.
Port RocePort(const std::string& device, const std::string& ip, const std::string& interface, double gbps = 100) {
  Port port{
      .device = device, .ethernet = true, .active = true, .state = "active", .mtu_bytes = 4096, .line_gbps = gbps};
  port.gids = {RoceGid(0, Gid::Type::kRoceV1, "fe80::1", interface),
               RoceGid(1, Gid::Type::kRoceV2, "fe80::1", interface), RoceGid(2, Gid::Type::kRoceV1, ip, interface),
               RoceGid(3, Gid::Type::kRoceV2, ip, interface)};
  return port;
}

Port InfiniBandPort(const std::string& device, int number, double gbps = 200) {
  Port port{.device = device,
            .number = number,
            .active = true,
            .state = "active",
            .mtu_bytes = 4096,
            .line_gbps = gbps,
            .lid = 7};
  port.gids = {{.index = 0}, {.index = 1}};
  return port;
}

Port Down(Port port) {
  port.active = false;
  port.state = "down (no cable, or the other end is off)";
  return port;
}

std::string NameOf(const Result<ChosenPort>& chosen) {
  REQUIRE_MESSAGE(chosen, chosen.error().ToString());
  return chosen->port.Name() + " gid " + std::to_string(chosen->gid.index);
}

const std::vector<tcp::LocalAddress> kNone;

TEST_CASE("An address means the port that has it, by the newer version of RoCE") {
  const std::vector<Port> ports{RocePort("mlx5_0", "10.0.0.1", "eth0"), RocePort("mlx5_1", "10.0.0.2", "eth1")};
  CHECK(NameOf(ChoosePort(ports, kNone, "10.0.0.2")) == "mlx5_1:1 gid 3");
  CHECK(ChoosePort(ports, kNone, "10.0.0.2")->reason == "10.0.0.2 is its address");
}

TEST_CASE("An address of IP over InfiniBand means the device of its interface") {
  const std::vector<Port> ports{InfiniBandPort("mlx5_0", 1), InfiniBandPort("mlx5_1", 1)};
  const std::vector<tcp::LocalAddress> addresses{
      {.interface = "ib1", .devices = {"mlx5_1"}, .ip = *IpAddress::Parse("10.1.0.1"), .prefix_bits = 24}};
  CHECK(NameOf(ChoosePort(ports, addresses, "10.1.0.1")) == "mlx5_1:1 gid 0");
  CHECK(ChoosePort(ports, addresses, "10.1.0.1")->reason == "10.1.0.1 is the address of its interface ib1");
}

TEST_CASE("A device means its first active port, a port itself") {
  const std::vector<Port> ports{Down(InfiniBandPort("mlx4_0", 1)), InfiniBandPort("mlx4_0", 2),
                                InfiniBandPort("mlx4_1", 1)};
  CHECK(NameOf(ChoosePort(ports, kNone, "mlx4_0")) == "mlx4_0:2 gid 0");
  CHECK(NameOf(ChoosePort(ports, kNone, "mlx4_1:1")) == "mlx4_1:1 gid 0");
}

TEST_CASE("No wish is the fastest active port, the first of equals") {
  CHECK(NameOf(ChoosePort({RocePort("a", "10.0.0.1", "eth0", 25), RocePort("b", "10.0.0.2", "eth1", 100),
                           RocePort("c", "10.0.0.3", "eth2", 100), Down(RocePort("d", "10.0.0.4", "eth3", 400))},
                          kNone, "")) == "b:1 gid 3");
}

TEST_CASE("A port without IPv4 is named by the address that reaches farthest") {
  Port port = RocePort("mlx5_0", "2001:db8::1", "eth0");
  CHECK(NameOf(ChoosePort({port}, kNone, "")) == "mlx5_0:1 gid 3");
  port.gids.resize(2);
  CHECK(NameOf(ChoosePort({port}, kNone, "")) == "mlx5_0:1 gid 1");
}

TEST_CASE("What cannot be is refused in words that say what there is") {
  const std::vector<Port> ports{RocePort("mlx5_0", "10.0.0.1", "eth0"), Down(InfiniBandPort("mlx5_1", 1))};
  const auto refusal = [&](const std::vector<Port>& of, const char* wish, ErrorCode code, const char* words) {
    CAPTURE(wish);
    const auto chosen = ChoosePort(of, kNone, wish);
    REQUIRE(!chosen);
    CHECK(chosen.error().code() == code);
    CHECK_MESSAGE(chosen.error().message().find(words) != std::string::npos, chosen.error().message());
  };
  refusal(ports, "10.0.0.9", ErrorCode::kUnreachable,
          "no RDMA port has the address 10.0.0.9; there are: mlx5_0:1 (10.0.0.1, fe80::1); mlx5_1:1");
  refusal(ports, "mlx5_7", ErrorCode::kInvalidArgument, "there is no RDMA device or port 'mlx5_7'");
  refusal(ports, "mlx5_0:2", ErrorCode::kInvalidArgument, "there is no RDMA device or port 'mlx5_0:2'");
  refusal(ports, "mlx5_1", ErrorCode::kUnreachable, "RDMA port mlx5_1:1 is down (no cable");
  refusal({Down(ports[0]), ports[1]}, "", ErrorCode::kUnreachable, "no RDMA port is active: mlx5_0:1 is down");
  refusal({}, "", ErrorCode::kUnsupported, "no RDMA device");
  Port bare = ports[0];
  bare.gids.clear();
  refusal({bare}, "mlx5_0", ErrorCode::kUnreachable, "has no GID, because its interface has no address");
}

TEST_CASE("A port says all of itself in one line") {
  CHECK(
      RocePort("mlx5_0", "10.0.0.1", "eth0").ToString() ==
      "mlx5_0:1 Ethernet, active, 100 Gbit/s, MTU 4096; GIDs: [0] RoCE v1 fe80::1 (eth0), [1] RoCE v2 fe80::1 (eth0), "
      "[2] RoCE v1 10.0.0.1 (eth0), [3] RoCE v2 10.0.0.1 (eth0)");
  CHECK(
      InfiniBandPort("mlx4_0", 2).ToString() ==
      "mlx4_0:2 InfiniBand, active, 200 Gbit/s, MTU 4096, LID 7; GIDs: "
      "[0] InfiniBand 0000:0000:0000:0000:0000:0000:0000:0000, [1] InfiniBand 0000:0000:0000:0000:0000:0000:0000:0000");
}

std::string NamesOf(const Result<std::vector<ChosenPort>>& chosen) {
  REQUIRE_MESSAGE(chosen, chosen.error().ToString());
  std::string names;
  for (const ChosenPort& one : *chosen) names += one.port.Name() + " ";
  return names;
}

TEST_CASE("Lanes try the ports in the order in which they were asked for, each once") {
  const std::vector<Port> ports = {RocePort("a", "10.0.0.1", "eth0"), RocePort("b", "10.0.0.2", "eth1"),
                                   RocePort("c", "10.0.0.3", "eth2")};
  CHECK(NamesOf(ChoosePorts(ports, kNone, "c")) == "c:1 ");
  CHECK(NamesOf(ChoosePorts(ports, kNone, "c+10.0.0.1+c:1")) == "c:1 a:1 ");
}

TEST_CASE("Without a wish they try all active ports, the fastest first") {
  CHECK(NamesOf(ChoosePorts({RocePort("a", "10.0.0.1", "eth0", 25), Down(RocePort("b", "10.0.0.2", "eth1", 400)),
                             RocePort("c", "10.0.0.3", "eth2", 100), RocePort("d", "10.0.0.4", "eth3", 25)},
                            kNone, "")) == "c:1 a:1 d:1 ");
}

TEST_CASE("Of several that were asked for, one that is down is left out while another is not") {
  const std::vector<Port> ports = {Down(RocePort("a", "10.0.0.1", "eth0")), RocePort("b", "10.0.0.2", "eth1")};
  CHECK(NamesOf(ChoosePorts(ports, kNone, "a+b")) == "b:1 ");
  CHECK(NamesOf(ChoosePorts(ports, kNone, "10.0.0.9+b")) == "b:1 ");
  const auto code = [&](std::string_view wish) { return ChoosePorts(ports, kNone, wish).error().code(); };
  CHECK(code("a+a") == ErrorCode::kUnreachable);
  CHECK(code("b+mlx5_0") == ErrorCode::kInvalidArgument);
  CHECK(code("b+") == ErrorCode::kInvalidArgument);
  CHECK(code("+") == ErrorCode::kInvalidArgument);
}

TEST_CASE("as the end of a path a port tells its GID, and its address where it has one") {
  const Port roce = RocePort("mlx5_0", "10.0.0.1", "eth0");
  const LinkEnd link = LinkOf(roce, roce.gids[3]);
  CHECK(link.device == "mlx5_0");
  CHECK(link.port == 1);
  CHECK(link.address == "10.0.0.1");
  CHECK(link.gid == "RoCE v2 10.0.0.1 (eth0)");
  CHECK(link.gid_index == 3);
  CHECK(link.mtu_bytes == 4096);
  CHECK(link.line_gbps == 100);

  const Port infiniband = InfiniBandPort("mlx5_1", 2);
  const LinkEnd other = LinkOf(infiniband, infiniband.gids.at(0));
  CHECK(other.port == 2);
  CHECK(other.address.empty());
  CHECK(other.gid.starts_with("InfiniBand "));
}

}  // namespace ports_test
}  // namespace rondo::ib
