#include "transport/tcp/interfaces.h"

#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "transport/tcp/socket.h"

namespace rondo::tcp {
namespace {

// "eth0" -> {"mlx5_0"}; empty where there is no RDMA device.
std::map<std::string, std::vector<std::string>> RdmaDevices() {
  namespace fs = std::filesystem;
  std::map<std::string, std::vector<std::string>> devices;
  std::error_code error;
  for (fs::directory_iterator device("/sys/class/infiniband", error), end; !error && device != end;
       device.increment(error)) {
    std::error_code inner;
    for (fs::directory_iterator net(device->path() / "device/net", inner); !inner && net != end; net.increment(inner)) {
      devices[net->path().filename().string()].push_back(device->path().filename().string());
    }
  }
  return devices;
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
  std::error_code error;
  if (interface.empty() || !std::filesystem::exists(folder + "/mtu", error)) return link;
  link.device = interface;
  std::ifstream(folder + "/mtu") >> link.mtu_bytes;
  // A veth pair claims 10 Gbit/s, but has no device behind it.
  if (!std::filesystem::exists(folder + "/device", error) && !std::filesystem::exists(folder + "/bonding", error))
    return link;
  double mbps = 0;
  std::ifstream(folder + "/speed") >> mbps;
  link.line_gbps = mbps > 0 ? mbps / 1000 : 0;  // -1 where there is a driver that does not know
  return link;
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
      exact = exact || first;  // in front of the list it holds for the whole list, as NCCL has it
      part.remove_prefix(1);
    }
    first = false;
    if (part.empty()) return Fail(ErrorCode::kInvalidArgument, "empty item in the interface expression '{}'", whole);
    if (part.find_first_of("^=") != std::string_view::npos) {
      return Fail(ErrorCode::kInvalidArgument, "'{}' in the interface expression '{}': ^ and = only stand in front",
                  part, whole);
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
          return Fail(ErrorCode::kInvalidArgument, "'{}' in the interface expression '{}': the prefix is 0 to {} bits",
                      part, whole, most);
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
      chosen.push_back(
          {.interface = "lo", .devices = {}, .ip = *ip, .prefix_bits = 8, .up = true});  // all of 127/8 is ours
    } else {
      return Fail(ErrorCode::kInvalidArgument, "no interface has the address {}; this machine has {}", text, List(all));
    }
  }
  if (!chosen.empty()) return chosen;

  RONDO_ASSIGN(const InterfaceExpression wanted, InterfaceExpression::Parse(expression));
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen), [&](const auto& a) { return wanted.Matches(a); });
  if (chosen.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "the interface expression '{}' leaves no address; this machine has {}",
                expression, List(all));
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const LocalAddress& a, const LocalAddress& b) {
    return std::pair(Classify(a), !a.ip.is_v4()) < std::pair(Classify(b), !b.ip.is_v4());
  });
  return chosen;
}

}  // namespace rondo::tcp
