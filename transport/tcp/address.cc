#include "transport/tcp/address.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/byte_codec.h"
#include "base/check.h"
#include "transport/transport.h"

namespace rondo::tcp {
namespace {

constexpr std::string_view kMagic = "RTA";
constexpr std::uint8_t kEncodingVersion = 2;

// Puts the fastest of several networks of one kind first, if all their speeds are known. Addresses that are valid on
// only one link or machine keep their order at the end.
void PutFastestFirst(std::vector<Attempt>& attempts) {
  const auto end = std::find_if_not(attempts.begin(), attempts.end(), [](const Attempt& a) { return a.anywhere; });
  if (std::any_of(attempts.begin(), end, [](const Attempt& a) { return a.mbps == 0; })) return;
  std::stable_sort(attempts.begin(), end, [](const Attempt& a, const Attempt& b) {
    return std::pair(-std::int64_t{a.mbps}, !a.at.ip.is_v4()) < std::pair(-std::int64_t{b.mbps}, !b.at.ip.is_v4());
  });
}

void WriteName(ByteWriter& writer, std::string_view name) {
  RONDO_CHECK(name.size() <= kMaxNameBytes);
  writer.Text<std::uint8_t>(name);
}

}  // namespace

std::string Encode(const TcpAddress& address) {
  RONDO_CHECK(address.candidates.size() <= kMaxCandidates);
  ByteWriter writer;
  writer.Raw(kMagic);
  writer.Number(kEncodingVersion);
  WriteName(writer, address.host);
  WriteName(writer, address.host_id);
  WriteName(writer, address.instance);
  writer.Number(static_cast<std::uint8_t>(address.candidates.size()));
  for (const Candidate& candidate : address.candidates) {
    writer.Number(static_cast<std::uint8_t>(candidate.at.ip.is_v4() ? 4 : 6));
    writer.Raw(candidate.at.ip.bytes());
    if (!candidate.at.ip.is_v4()) writer.Number(candidate.at.ip.scope());
    writer.Number(candidate.at.port);
    writer.Number(static_cast<std::uint8_t>(candidate.prefix_bits));
    writer.Number(static_cast<std::uint8_t>(candidate.address_class));
    writer.Number(candidate.mbps);
    WriteName(writer, std::string_view(candidate.interface).substr(0, kMaxInterfaceBytes));
  }
  std::string text = writer.Take();
  RONDO_CHECK(text.size() <= kMaxAddressBytes);
  return text;
}

Result<TcpAddress> DecodeTcpAddress(std::string_view text) {
  if (text.size() > kMaxAddressBytes) {
    return Fail(ErrorCode::kInvalidArgument, "a TCP address has {} bytes; at most {} are allowed", text.size(),
                kMaxAddressBytes);
  }
  if (!text.starts_with(kMagic))
    return Fail(ErrorCode::kInvalidArgument, "the address is not one of the TCP transport");
  ByteReader reader(text.substr(kMagic.size()));
  if (const auto version = reader.Number<std::uint8_t>(); version != kEncodingVersion) {
    return Fail(ErrorCode::kVersionMismatch, "a TCP address has version {}, but this version of Rondo reads version {}",
                version, kEncodingVersion);
  }
  TcpAddress address;
  address.host = reader.Text<std::uint8_t>();
  address.host_id = reader.Text<std::uint8_t>();
  address.instance = reader.Text<std::uint8_t>();
  const std::size_t count = reader.Number<std::uint8_t>();
  if (count > kMaxCandidates) {
    return Fail(ErrorCode::kInvalidArgument, "a TCP address has {} candidates; at most {} are allowed", count,
                kMaxCandidates);
  }
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    Candidate candidate;
    const auto family = reader.Number<std::uint8_t>();
    if (family != 4 && family != 6 && reader.ok()) {
      return Fail(ErrorCode::kInvalidArgument, "candidate {} of a TCP address has family {}; expected 4 or 6", i,
                  family);
    }
    const std::string_view ip = reader.Raw(family == 4 ? 4 : 16);
    const std::uint32_t scope = family == 4 ? 0 : reader.Number<std::uint32_t>();
    if (!ip.empty()) candidate.at.ip = IpAddress::FromBytes(AsBytes(ip), scope);
    candidate.at.port = reader.Number<std::uint16_t>();
    candidate.prefix_bits = reader.Number<std::uint8_t>();
    const auto address_class = reader.Number<std::uint8_t>();
    if (address_class > static_cast<std::uint8_t>(AddressClass::kLoopback)) {
      return Fail(ErrorCode::kInvalidArgument, "candidate {} of a TCP address has the unknown class {}", i,
                  address_class);
    }
    candidate.address_class = static_cast<AddressClass>(address_class);
    candidate.mbps = reader.Number<std::uint32_t>();
    candidate.interface = reader.Text<std::uint8_t>();
    if (candidate.interface.size() > kMaxInterfaceBytes) {
      return Fail(ErrorCode::kInvalidArgument,
                  "candidate {} of a TCP address has an interface name of {} bytes; at most {} are allowed", i,
                  candidate.interface.size(), kMaxInterfaceBytes);
    }
    address.candidates.push_back(std::move(candidate));
  }
  if (!reader.ok()) {
    return Fail(ErrorCode::kInvalidArgument, "a TCP address of {} bytes is truncated", text.size());
  }
  if (reader.remaining() != 0) {
    return Fail(ErrorCode::kInvalidArgument, "a TCP address has {} bytes too many", reader.remaining());
  }
  return address;
}

bool SameHost(const TcpAddress& a, const TcpAddress& b) { return !a.host_id.empty() && a.host_id == b.host_id; }

std::vector<Attempt> OrderAttempts(const TcpAddress& self, const std::vector<LocalAddress>& local,
                                   const TcpAddress& remote) {
  std::vector<Attempt> same_subnet, routed, link_local, loopback;
  const bool same_host = SameHost(self, remote);
  const bool hosts_known = !self.host_id.empty() && !remote.host_id.empty();
  for (const Candidate& candidate : remote.candidates) {
    const IpAddress& ip = candidate.at.ip;
    if (candidate.address_class == AddressClass::kLoopback) {
      if (same_host || !hosts_known)
        loopback.push_back({.at = candidate.at, .reason = same_host ? "same host" : "loopback", .interface = "lo"});
      continue;
    }
    if (same_host) {  // whatever the address is, the kernel keeps the traffic on this host
      routed.push_back({.at = candidate.at, .reason = "same host", .interface = candidate.interface});
      continue;
    }
    // The scope of this address is an interface of the peer, so any link of this host may reach the address.
    if (ip.IsLinkLocal() && !ip.is_v4()) {
      for (const LocalAddress& own : local) {
        if (own.up && own.ip.IsLinkLocal() && !own.ip.is_v4() && Classify(own) == AddressClass::kLinkLocal) {
          link_local.push_back({.at = {ip.WithScope(own.ip.scope()), candidate.at.port},
                                .reason = "link-local",
                                .interface = own.interface});
        }
      }
      continue;
    }
    const auto neighbour = std::find_if(local.begin(), local.end(), [&](const LocalAddress& own) {
      return own.up && Classify(own) != AddressClass::kLoopback && own.ip.SharesPrefix(ip, own.prefix_bits);
    });
    // A container bridge has the same subnet on every machine, so two machines with the same subnet may share no
    // network.
    const bool bridge = candidate.address_class == AddressClass::kVirtual ||
                        (neighbour != local.end() && Classify(*neighbour) == AddressClass::kVirtual);
    Attempt attempt{.at = candidate.at, .reason = "routed", .network = candidate.interface, .mbps = candidate.mbps};
    attempt.anywhere = candidate.address_class == AddressClass::kGlobal;
    if (neighbour != local.end() && !bridge) {
      attempt.reason = "same subnet";
      attempt.interface = neighbour->interface;
      attempt.mbps = std::min(candidate.mbps, neighbour->mbps);
      same_subnet.push_back(std::move(attempt));
    } else {
      routed.push_back(std::move(attempt));
    }
  }
  if (!same_host) {
    PutFastestFirst(same_subnet);
    PutFastestFirst(routed);
  }
  std::vector<Attempt> order;
  const auto append = [&](std::vector<Attempt>& group) {
    std::move(group.begin(), group.end(), std::back_inserter(order));
    group.clear();
  };
  if (same_host) append(loopback);
  append(same_subnet);
  append(routed);
  append(link_local);
  append(loopback);
  return order;
}

NetworkChoice DescribeChoice(const std::vector<Attempt>& attempts, const IpAddress& taken) {
  const auto way = std::find_if(attempts.begin(), attempts.end(), [&](const Attempt& a) {
    return a.anywhere && a.at.ip.WithScope(0) == taken.WithScope(0);
  });
  if (way == attempts.end()) return {};
  std::vector<const Attempt*> others;  // one attempt for each other network
  for (const Attempt& other : attempts) {
    const bool is_new =
        std::none_of(others.begin(), others.end(), [&](auto* o) { return o->network == other.network; });
    if (other.anywhere && other.reason == way->reason && other.network != way->network && is_new)
      others.push_back(&other);
  }
  if (others.empty()) return {};
  NetworkChoice choice;
  std::uint32_t fastest = 0;
  std::string list;
  choice.speeds_unknown = way->mbps == 0;
  for (const Attempt* other : others) {
    choice.speeds_unknown = choice.speeds_unknown || other->mbps == 0;
    fastest = std::max(fastest, other->mbps);
    list += fmt::format("{}{}{}, {}", list.empty() ? "" : "; ", other->at.ip.ToString(),
                        other->interface.empty() ? "" : " via " + other->interface, DescribeSpeed(other->mbps));
  }
  const std::size_t networks = others.size() + 1;
  std::string why = fmt::format("the fastest of {} networks, {}", networks, DescribeSpeed(way->mbps));
  if (choice.speeds_unknown) {
    why = fmt::format("one of {} networks whose speeds are not all known, {}", networks, DescribeSpeed(way->mbps));
  } else if (fastest > way->mbps) {
    why = fmt::format("a faster network did not connect in time, {}", DescribeSpeed(way->mbps));
  }
  choice.text = fmt::format("{}; also {}", why, list);
  return choice;
}

NetworkChoice DescribeNetworks(const std::vector<Candidate>& candidates) {
  std::vector<const Candidate*> networks;  // one address of each network
  for (const Candidate& candidate : candidates) {
    const bool is_new = std::none_of(networks.begin(), networks.end(), [&](const Candidate* other) {
      return other->interface == candidate.interface || other->at.ip.SharesPrefix(candidate.at.ip, other->prefix_bits);
    });
    if (candidate.address_class == AddressClass::kGlobal && is_new) networks.push_back(&candidate);
  }
  if (networks.size() < 2) return {};
  NetworkChoice choice;
  std::string list;
  for (const Candidate* network : networks) {
    choice.speeds_unknown = choice.speeds_unknown || network->mbps == 0;
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", then ", network->interface, DescribeSpeed(network->mbps));
  }
  choice.text = fmt::format(
      "{} networks, tried in this order: {}{}", networks.size(), list,
      choice.speeds_unknown ? "; not all speeds are known, so the first may be slow: choose one with --interface" : "");
  return choice;
}

std::vector<Attempt> InTurn(std::vector<Attempt> attempts, std::uint32_t rail) {
  const auto is_as_good = [&](const Attempt& attempt) {
    const IpAddress& ip = attempt.at.ip;
    const IpAddress& first = attempts.front().at.ip;
    return attempt.reason == attempts.front().reason && ip.is_v4() == first.is_v4() &&
           ip.IsLoopback() == first.IsLoopback() && attempt.mbps == attempts.front().mbps;
  };
  const auto behind = std::find_if_not(attempts.begin(), attempts.end(), is_as_good);
  if (behind != attempts.begin())
    std::rotate(attempts.begin(), attempts.begin() + rail % (behind - attempts.begin()), behind);
  return attempts;
}

std::optional<IpAddress> SourceFor(const IpAddress& to, const std::vector<Candidate>& own, std::uint32_t rail) {
  if (own.empty() || to.IsLoopback()) return std::nullopt;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const Candidate& candidate = own[(rail + i) % own.size()];
    if (candidate.at.ip.is_v4() == to.is_v4() && candidate.at.ip.SharesPrefix(to, candidate.prefix_bits))
      return candidate.at.ip;
  }
  return own[rail % own.size()].at.ip;
}

}  // namespace rondo::tcp
