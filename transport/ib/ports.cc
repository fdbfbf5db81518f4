#include "transport/ib/ports.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <tuple>

namespace rondo::ib {
namespace {

// The vendor number that the kernel's soft-RoCE driver (rdma_rxe) reports.
constexpr std::uint32_t kSoftRoce = 0xFFFFFF;

std::string_view Name(Gid::Type type) {
  switch (type) {
    case Gid::Type::kInfiniBand: return "InfiniBand";
    case Gid::Type::kRoceV1: return "RoCE v1";
    case Gid::Type::kRoceV2: return "RoCE v2";
  }
  return "?";
}

std::string StateInWords(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN: return "down (no cable, or the other end is off)";
    case IBV_PORT_INIT: return "initializing (no subnet manager has seen it)";
    case IBV_PORT_ARMED: return "armed (the subnet manager has not activated it)";
    case IBV_PORT_ACTIVE: return "active";
    case IBV_PORT_ACTIVE_DEFER: return "active, deferred (recovering from errors of the link)";
    case IBV_PORT_NOP: break;
  }
  return "in an unknown state";
}

// Decodes two codes of the InfiniBand specification (PortInfo, 14.2.5.6): the number of physical lanes, and the Gbit/s
// of each.
double LineGbps(std::uint8_t width, std::uint8_t speed) {
  const double lanes = width == 1 ? 1 : width == 16 ? 2 : width == 2 ? 4 : width == 4 ? 8 : width == 8 ? 12 : 0;
  switch (speed) {
    case 1: return lanes * 2.5;
    case 2: return lanes * 5;
    case 4:
    case 8: return lanes * 10;
    case 16: return lanes * 14.0625;
    case 32: return lanes * 25;
    case 64: return lanes * 50;
    case 128: return lanes * 100;
    default: return 0;
  }
}

Result<std::vector<Gid>> GidsOf(const VerbsLibrary& library, ibv_context* context, const std::string& device, int port,
                                int table_entries) {
  // The largest number of entries to ask for. The kernel's interface counts the bytes of a reply in 16 bits. Tables are
  // long but mostly empty, and the kernel returns only the entries that exist.
  constexpr int kMaxEntries = UINT16_MAX / sizeof(ibv_gid_entry);
  std::vector<ibv_gid_entry> entries(static_cast<std::size_t>(std::clamp(table_entries, 1, kMaxEntries)));
  const ssize_t count = library.query_gid_table(context, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  if (count < 0)
    return Fail(ErrorCode::kResource, "RDMA device {} does not report its GIDs: {}", device,
                std::strerror(static_cast<int>(-count)));
  std::vector<Gid> gids;
  for (const ibv_gid_entry& entry : std::span(entries).first(static_cast<std::size_t>(count))) {
    if (entry.port_num != static_cast<std::uint32_t>(port)) continue;
    Gid gid{.index = static_cast<int>(entry.gid_index), .type = static_cast<Gid::Type>(entry.gid_type)};
    std::memcpy(gid.bytes.data(), entry.gid.raw, gid.bytes.size());
    char name[IF_NAMESIZE] = "";
    if (entry.ndev_ifindex != 0 && if_indextoname(entry.ndev_ifindex, name) != nullptr) gid.interface = name;
    gids.push_back(std::move(gid));
  }
  return gids;
}

std::string List(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) {
    std::vector<std::string> ips;
    for (const Gid& gid : port.gids)
      if (gid.type != Gid::Type::kInfiniBand) ips.push_back(gid.ip().ToString());
    std::sort(ips.begin(), ips.end());
    ips.erase(std::unique(ips.begin(), ips.end()), ips.end());
    names.push_back(ips.empty() ? port.Name() : fmt::format("{} ({})", port.Name(), fmt::join(ips, ", ")));
  }
  return fmt::format("{}", fmt::join(names, "; "));
}

// Rates a GID; a smaller number is better. RoCE version 2 is better because it can be routed. IPv4 is better because
// all networks have it. Link-local addresses are worse because they are valid on one link only.
int Rank(const Gid& gid) {
  if (gid.type == Gid::Type::kInfiniBand) return gid.index;
  const IpAddress ip = gid.ip();
  return (gid.type == Gid::Type::kRoceV2 ? 0 : 4) + (ip.is_v4() ? 0 : ip.IsLinkLocal() ? 2 : 1);
}

const Gid* BestGid(const Port& port) {
  const auto best = std::min_element(port.gids.begin(), port.gids.end(),
                                     [](const Gid& a, const Gid& b) { return Rank(a) < Rank(b); });
  return best == port.gids.end() ? nullptr : &*best;
}

Result<ChosenPort> Chosen(const Port& port, const Gid* gid, std::string reason) {
  if (!port.active) return Fail(ErrorCode::kUnreachable, "RDMA port {} is {}", port.Name(), port.state);
  if (gid == nullptr)
    return Fail(ErrorCode::kUnreachable, "RDMA port {} has no GID, because {}", port.Name(),
                port.ethernet ? "its interface has no address" : "no subnet manager has seen it");
  return ChosenPort{port, *gid, std::move(reason)};
}

}  // namespace

std::string Gid::ToString() const {
  if (type == Type::kInfiniBand) {
    std::string text = "InfiniBand ";
    for (std::size_t i = 0; i < bytes.size(); ++i)
      text += fmt::format("{}{:02x}", i > 0 && i % 2 == 0 ? ":" : "", static_cast<unsigned>(bytes[i]));
    return text;
  }
  return fmt::format("{} {}{}", ib::Name(type), ip().ToString(), interface.empty() ? "" : " (" + interface + ")");
}

std::string Port::Name() const { return fmt::format("{}:{}", device, number); }

std::string Port::ToString() const {
  std::vector<std::string> names;
  for (const Gid& gid : gids) names.push_back(fmt::format("[{}] {}", gid.index, gid.ToString()));
  return fmt::format(
      "{} {}{}, {}, {}MTU {}{}; GIDs: {}", Name(), ethernet ? "Ethernet" : "InfiniBand", software ? " (soft-RoCE)" : "",
      state, line_gbps > 0 ? fmt::format("{:g} Gbit/s, ", line_gbps) : "", mtu_bytes,
      ethernet ? "" : fmt::format(", LID {}", lid), names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

LinkEnd LinkOf(const Port& port, const Gid& gid) {
  return {.device = port.device,
          .port = port.number,
          .address = gid.type == Gid::Type::kInfiniBand ? "" : gid.ip().ToString(),
          .gid = gid.ToString(),
          .gid_index = gid.index,
          .mtu_bytes = port.mtu_bytes,
          .line_gbps = port.line_gbps};
}

Result<std::vector<Port>> EnumeratePorts(const VerbsLibrary& library) {
  int count = 0;
  const auto free_list = [&](ibv_device** list) { library.free_device_list(list); };
  const std::unique_ptr<ibv_device*, decltype(free_list)> list(library.get_device_list(&count), free_list);
  if (list == nullptr && errno != ENOSYS)  // ENOSYS: the kernel has no RDMA support
    return Fail(ErrorCode::kResource, "the RDMA devices cannot be listed: {}", std::strerror(errno));
  std::vector<Port> ports;
  for (ibv_device* device : std::span(list.get(), static_cast<std::size_t>(list == nullptr ? 0 : count))) {
    const std::string name = library.get_device_name(device);
    const auto close = [&](ibv_context* context) { library.close_device(context); };
    const std::unique_ptr<ibv_context, decltype(close)> context(library.open_device(device), close);
    if (context == nullptr)
      return Fail(ErrorCode::kResource, "RDMA device {} cannot be opened: {}", name, std::strerror(errno));
    ibv_device_attr attributes{};
    if (const int failed = library.query_device(context.get(), &attributes); failed != 0)
      return Fail(ErrorCode::kResource, "RDMA device {} does not answer: {}", name, std::strerror(failed));
    for (int number = 1; number <= attributes.phys_port_cnt; ++number) {
      ibv_port_attr port_attributes;
      if (const int failed = library.QueryPort(context.get(), static_cast<std::uint8_t>(number), port_attributes);
          failed != 0)
        return Fail(ErrorCode::kResource, "RDMA port {}:{} does not answer: {}", name, number, std::strerror(failed));
      Port port{.device = name,
                .number = number,
                .ethernet = port_attributes.link_layer == IBV_LINK_LAYER_ETHERNET,
                .software = attributes.vendor_id == kSoftRoce,
                .active = port_attributes.state == IBV_PORT_ACTIVE,
                .state = StateInWords(port_attributes.state),
                .mtu_bytes = 128 << port_attributes.active_mtu,
                .most_mtu_bytes = 128 << port_attributes.max_mtu,
                .line_gbps = LineGbps(port_attributes.active_width, port_attributes.active_speed),
                .lid = port_attributes.lid,
                .gids = {}};
      RONDO_ASSIGN(port.gids, GidsOf(library, context.get(), name, number,
                                     attributes.phys_port_cnt * port_attributes.gid_tbl_len));
      ports.push_back(std::move(port));
    }
  }
  std::sort(ports.begin(), ports.end(),
            [](const Port& a, const Port& b) { return std::tie(a.device, a.number) < std::tie(b.device, b.number); });
  return ports;
}

Result<ChosenPort> ChoosePort(const std::vector<Port>& ports, const std::vector<tcp::LocalAddress>& addresses,
                              std::string_view wish) {
  if (ports.empty())
    return Fail(ErrorCode::kUnsupported,
                "this machine has no RDMA device (ibv_devinfo lists them; is the driver loaded?)");
  if (wish.empty()) {
    const Port* best = nullptr;
    for (const Port& port : ports)
      if (port.active && BestGid(port) != nullptr && (best == nullptr || port.line_gbps > best->line_gbps))
        best = &port;
    if (best != nullptr)
      return Chosen(*best, BestGid(*best), ports.size() == 1 ? "the only port" : "the fastest active port");
    return Fail(ErrorCode::kUnreachable, "no RDMA port is active: {} is {}{}", ports.front().Name(),
                ports.front().state, ports.size() > 1 ? fmt::format(", and {} more", ports.size() - 1) : "");
  }
  if (const auto ip = IpAddress::Parse(wish)) {
    // One address may be in several entries, because RoCE has versions 1 and 2.
    const Port* with = nullptr;
    const Gid* named = nullptr;
    for (const Port& port : ports)
      for (const Gid& gid : port.gids)
        if (gid.type != Gid::Type::kInfiniBand && gid.ip() == *ip && (named == nullptr || Rank(gid) < Rank(*named))) {
          with = &port;
          named = &gid;
        }
    if (with != nullptr) return Chosen(*with, named, fmt::format("{} is its address", wish));
    for (const tcp::LocalAddress& address : addresses) {
      if (address.ip != *ip) continue;
      for (const Port& port : ports)
        if (std::find(address.devices.begin(), address.devices.end(), port.device) != address.devices.end())
          return Chosen(port, BestGid(port),
                        fmt::format("{} is the address of its interface {}", wish, address.interface));
    }
    return Fail(ErrorCode::kUnreachable, "no RDMA port has the address {}; there are: {}", wish, List(ports));
  }
  const Port* down = nullptr;
  for (const Port& port : ports) {
    if (wish != port.device && wish != port.Name()) continue;
    if (port.active) return Chosen(port, BestGid(port), fmt::format("{} was asked for", wish));
    if (down == nullptr) down = &port;
  }
  if (down != nullptr) return Chosen(*down, nullptr, "");
  return Fail(ErrorCode::kInvalidArgument, "there is no RDMA device or port '{}'; there are: {}", wish, List(ports));
}

Result<std::vector<ChosenPort>> ChoosePorts(const std::vector<Port>& ports,
                                            const std::vector<tcp::LocalAddress>& addresses, std::string_view wishes) {
  std::vector<ChosenPort> chosen;
  if (!wishes.empty()) {
    std::optional<Error> first_down;
    for (std::size_t begin = 0, joint = 0; joint != std::string_view::npos; begin = joint + 1) {
      joint = wishes.find('+', begin);
      const std::string_view wish = wishes.substr(begin, joint == std::string_view::npos ? joint : joint - begin);
      if (wish.empty())
        return Fail(ErrorCode::kInvalidArgument, "'{}' has a '+' without an RDMA port on each side of it", wishes);
      auto one = ChoosePort(ports, addresses, wish);
      if (one) {
        const bool again = std::any_of(chosen.begin(), chosen.end(), [&](const ChosenPort& before) {
          return before.port.Name() == one->port.Name();
        });
        if (!again) chosen.push_back(std::move(*one));
      } else if (one.error().code() != ErrorCode::kUnreachable)
        return tl::unexpected(std::move(one).error());
      else if (!first_down)
        first_down = std::move(one).error();
    }
    if (chosen.empty()) return tl::unexpected(std::move(*first_down));
    return chosen;
  }
  RONDO_ASSIGN(ChosenPort fastest, ChoosePort(ports, addresses, ""));
  chosen.push_back(std::move(fastest));
  std::vector<const Port*> others;
  for (const Port& port : ports)
    if (port.active && BestGid(port) != nullptr && port.Name() != chosen.front().port.Name()) others.push_back(&port);
  std::stable_sort(others.begin(), others.end(),
                   [](const Port* a, const Port* b) { return a->line_gbps > b->line_gbps; });
  for (const Port* port : others) chosen.push_back({*port, *BestGid(*port), "in reserve"});
  return chosen;
}

}  // namespace rondo::ib
