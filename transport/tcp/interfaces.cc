#include "transport/tcp/interfaces.h"

#include <dirent.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "transport/tcp/socket.h"

namespace rondo::tcp {
namespace {

// The names in a folder; empty if there is no such folder. (std::filesystem::directory_iterator would end the process
// when memory runs out, because its increment is noexcept but allocates.)
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  const auto close = [](DIR* directory) { closedir(directory); };
  const std::unique_ptr<DIR, decltype(close)> directory(opendir(folder.c_str()), close);
  for (const dirent* entry = nullptr; directory && (entry = readdir(directory.get())) != nullptr;)
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  return names;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Maps interfaces to their RDMA devices: "eth0" -> {"mlx5_0"}. Empty: there is no RDMA device.
std::map<std::string, std::vector<std::string>> RdmaDevices() {
  const std::string folder = "/sys/class/infiniband";
  std::map<std::string, std::vector<std::string>> devices;
  for (const std::string& device : NamesIn(folder))
    for (const std::string& net : NamesIn(fmt::format("{}/{}/device/net", folder, device)))
      devices[net].push_back(device);
  return devices;
}

// The speed of the RDMA port to which an interface belongs, in Mbit/s: "100 Gb/sec (4X EDR)" -> 100000.
std::uint32_t RdmaMbps(const std::string& net_folder, const std::string& sys) {
  int port = 0;  // counted from 0
  std::ifstream(net_folder + "/dev_port") >> port;
  for (const std::string& device : NamesIn(net_folder + "/device/infiniband")) {
    for (const int number : {port + 1, 1}) {
      double gbps = 0;
      if (std::ifstream(fmt::format("{}/class/infiniband/{}/ports/{}/rate", sys, device, number)) >> gbps && gbps > 0)
        return static_cast<std::uint32_t>(gbps * 1000);
    }
  }
  return 0;
}

// `below`: the largest number of interfaces that may be stacked below `interface`.
std::uint32_t MbpsOf(const std::string& interface, const std::string& sys, int below) {
  const std::string folder = sys + "/class/net/" + interface;
  // Only a device or a bond reports a true speed. A veth pair, for example, claims 10 Gbit/s but has no device behind
  // it.
  if (Exists(folder + "/device") || Exists(folder + "/bonding")) {
    double mbps = 0;  // -1: the driver does not report a speed
    std::ifstream(folder + "/speed") >> mbps;
    return mbps > 0 ? static_cast<std::uint32_t>(mbps) : RdmaMbps(folder, sys);
  }
  std::uint32_t fastest = 0;
  if (below == 0) return fastest;
  constexpr std::string_view kLower = "lower_";
  for (const std::string& name : NamesIn(folder))
    if (name.starts_with(kLower)) fastest = std::max(fastest, MbpsOf(name.substr(kLower.size()), sys, below - 1));
  return fastest;
}

int PrefixBits(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  int bits = 0;
  if (mask->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, mask, sizeof v4);
    bits = std::popcount(v4.sin_addr.s_addr);
  } else if (mask->sa_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, mask, sizeof v6);
    for (const unsigned char byte : v6.sin6_addr.s6_addr) bits += std::popcount(byte);
  }
  return bits;
}

bool IsContainerBridge(std::string_view name) {
  static constexpr std::array<std::string_view, 8> kPrefixes{"docker", "veth",    "br-",  "virbr",
                                                             "cni",    "flannel", "cali", "podman"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](auto prefix) { return name.starts_with(prefix); });
}

std::vector<std::string_view> SplitCommas(std::string_view text) {
  std::vector<std::string_view> items;
  while (true) {
    const std::size_t comma = text.find(',');
    items.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return items;
    text.remove_prefix(comma + 1);
  }
}

std::string List(const std::vector<LocalAddress>& all) {
  std::string text;
  for (const LocalAddress& address : all) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", address.ip.ToString(), address.interface);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

Result<std::vector<LocalAddress>> EnumerateInterfaces() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) {
    return Fail(SystemError(errno, "cannot list the network interfaces", ErrorCode::kResource));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, &freeifaddrs);
  const auto devices = RdmaDevices();
  std::vector<LocalAddress> all;
  for (const ifaddrs* entry = raw; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const auto address = FromRaw(entry->ifa_addr);
    if (!address) continue;
    LocalAddress local;
    local.interface = entry->ifa_name;
    if (const auto found = devices.find(local.interface); found != devices.end()) local.devices = found->second;
    local.ip = address->ip;
    local.prefix_bits = PrefixBits(entry->ifa_netmask);
    local.up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    local.mbps = MbpsOf(local.interface, "/sys");
    all.push_back(std::move(local));
  }
  return all;
}

AddressClass Classify(const LocalAddress& address) {
  if (address.ip.IsLoopback() || address.interface == "lo") return AddressClass::kLoopback;
  if (!address.up) return AddressClass::kDown;
  if (address.ip.IsLinkLocal()) return AddressClass::kLinkLocal;
  return IsContainerBridge(address.interface) ? AddressClass::kVirtual : AddressClass::kGlobal;
}

LinkEnd LinkOf(const std::string& interface) {
  const std::string folder = "/sys/class/net/" + interface;
  LinkEnd link;
  if (interface.empty() || !Exists(folder + "/mtu")) return link;
  link.device = interface;
  std::ifstream(folder + "/mtu") >> link.mtu_bytes;
  link.line_gbps = static_cast<double>(MbpsOf(interface, "/sys")) / 1000;
  return link;
}

std::uint32_t MbpsOf(const std::string& interface, const std::string& sys) {
  constexpr int kDeepest = 4;  // enough for a VLAN on a bridge on a VLAN on a port
  return MbpsOf(interface, sys, kDeepest);
}

std::string DescribeSpeed(std::uint32_t mbps) {
  if (mbps == 0) return "speed unknown";
  return mbps % 1000 == 0 ? fmt::format("{} Gbit/s", mbps / 1000) : fmt::format("{} Mbit/s", mbps);
}

std::string_view Describe(AddressClass address_class) {
  switch (address_class) {
    case AddressClass::kGlobal: return "global";
    case AddressClass::kVirtual: return "container bridge";
    case AddressClass::kLinkLocal: return "link-local";
    case AddressClass::kDown: return "down";
    case AddressClass::kLoopback: return "loopback";
  }
  return "unknown";
}

Result<InterfaceExpression> InterfaceExpression::Parse(std::string_view text) {
  InterfaceExpression expression;
  if (text.empty()) return expression;
  const std::string_view whole = text;
  if (text.starts_with('^')) {
    expression.exclude_ = true;
    text.remove_prefix(1);
  }
  bool exact = false;
  bool first = true;
  for (std::string_view part : SplitCommas(text)) {
    Item item;
    item.exact = exact;
    if (part.starts_with('=')) {
      item.exact = true;
      exact = exact || first;  // a '=' at the start applies to the whole list, as in NCCL
      part.remove_prefix(1);
    }
    first = false;
    if (part.empty())
      return Fail(ErrorCode::kInvalidArgument, "the interface expression '{}' has an empty item", whole);
    if (part.find_first_of("^=") != std::string_view::npos) {
      return Fail(ErrorCode::kInvalidArgument,
                  "'{}' in the interface expression '{}': ^ and = are allowed only at its beginning", part, whole);
    }
    const std::size_t slash = part.find('/');
    const auto ip = IpAddress::Parse(part.substr(0, slash));
    if (slash != std::string_view::npos && !ip) {
      return Fail(ErrorCode::kInvalidArgument, "'{}' in the interface expression '{}' is not a network like 10.0.0.0/8",
                  part, whole);
    }
    if (ip) {
      item.network = true;
      item.ip = *ip;
      const int most = ip->is_v4() ? 32 : 128;
      item.prefix_bits = most;
      if (slash != std::string_view::npos) {
        const std::string_view bits = part.substr(slash + 1);
        const auto [end, error] = std::from_chars(bits.data(), bits.data() + bits.size(), item.prefix_bits);
        if (error != std::errc() || end != bits.data() + bits.size() || item.prefix_bits < 0 ||
            item.prefix_bits > most) {
          return Fail(ErrorCode::kInvalidArgument,
                      "'{}' in the interface expression '{}': expected a prefix of 0 to {} bits", part, whole, most);
        }
      }
    }
    item.name = part;
    expression.items_.push_back(std::move(item));
  }
  return expression;
}

bool InterfaceExpression::Matches(const LocalAddress& address) const {
  if (items_.empty()) return true;
  const bool any = std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
    if (item.network) return address.ip.SharesPrefix(item.ip, item.prefix_bits);
    if (std::find(address.devices.begin(), address.devices.end(), item.name) != address.devices.end()) return true;
    return item.exact ? address.interface == item.name : address.interface.starts_with(item.name);
  });
  return any != exclude_;
}

Result<std::vector<LocalAddress>> ChooseAddresses(const std::vector<LocalAddress>& all,
                                                  const std::vector<std::string>& forced, std::string_view expression) {
  std::vector<LocalAddress> chosen;
  for (const std::string& text : forced) {
    const auto ip = IpAddress::Parse(text);
    if (!ip) {
      return Fail(ErrorCode::kInvalidArgument, "'{}' is not a numeric address; this machine has {}", text, List(all));
    }
    const auto found = std::find_if(all.begin(), all.end(), [&](const LocalAddress& address) {
      return ip->scope() == 0 ? address.ip.WithScope(0) == *ip : address.ip == *ip;
    });
    if (found != all.end()) {
      chosen.push_back(*found);
    } else if (ip->is_v4() && ip->IsLoopback()) {
      // All of 127.0.0.0/8 belongs to this host.
      chosen.push_back({.interface = "lo", .devices = {}, .ip = *ip, .prefix_bits = 8, .up = true});
    } else {
      return Fail(ErrorCode::kInvalidArgument, "no interface has the address {}; this machine has {}", text, List(all));
    }
  }
  if (!chosen.empty()) return chosen;

  RONDO_ASSIGN(const InterfaceExpression wanted, InterfaceExpression::Parse(expression));
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen), [&](const auto& a) { return wanted.Matches(a); });
  if (chosen.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "the interface expression '{}' matches no address; this machine has {}",
                expression, List(all));
  }
  const bool speeds_known = std::none_of(chosen.begin(), chosen.end(), [](const LocalAddress& a) {
    return Classify(a) == AddressClass::kGlobal && a.mbps == 0;
  });
  const auto order = [&](const LocalAddress& a) {
    const AddressClass address_class = Classify(a);
    const bool by_speed = speeds_known && address_class == AddressClass::kGlobal;
    return std::tuple(address_class, by_speed ? -std::int64_t{a.mbps} : 0, !a.ip.is_v4());
  };
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](const LocalAddress& a, const LocalAddress& b) { return order(a) < order(b); });
  return chosen;
}

}  // namespace rondo::tcp
