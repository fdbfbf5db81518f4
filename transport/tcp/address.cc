#include "transport/tcp/address.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "base/byte_codec.h"
#include "base/check.h"
#include "transport/transport.h"

namespace rondo::tcp {
namespace {

constexpr std::string_view kMagic = "RTA";
constexpr std::uint8_t kEncodingVersion = 1;

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
    WriteName(writer, std::string_view(candidate.interface).substr(0, kMaxInterfaceBytes));
  }
  std::string text = writer.Take();
  RONDO_CHECK(text.size() <= kMaxAddressBytes);
  return text;
}

Result<TcpAddress> DecodeTcpAddress(std::string_view text) {
  if (text.size() > kMaxAddressBytes) {
    return Fail(ErrorCode::kInvalidArgument, "a TCP address of {} bytes is longer than {}", text.size(),
                kMaxAddressBytes);
  }
  if (!text.starts_with(kMagic)) return Fail(ErrorCode::kInvalidArgument, "not the address of a TCP transport");
  ByteReader reader(text.substr(kMagic.size()));
  if (const auto version = reader.Number<std::uint8_t>(); version != kEncodingVersion) {
    return Fail(ErrorCode::kVersionMismatch, "a TCP address of version {}; this Rondo reads version {}", version,
                kEncodingVersion);
  }
  TcpAddress address;
  address.host = reader.Text<std::uint8_t>();
  address.host_id = reader.Text<std::uint8_t>();
  address.instance = reader.Text<std::uint8_t>();
  const std::size_t count = reader.Number<std::uint8_t>();
  if (count > kMaxCandidates) {
    return Fail(ErrorCode::kInvalidArgument, "a TCP address with {} candidates; at most {}", count, kMaxCandidates);
  }
  for (std::size_t i = 0; i < count && reader.ok(); ++i) {
    Candidate candidate;
    const auto family = reader.Number<std::uint8_t>();
    if (family != 4 && family != 6 && reader.ok()) {
      return Fail(ErrorCode::kInvalidArgument, "candidate {} of a TCP address has family {}, not 4 or 6", i, family);
    }
    const std::string_view ip = reader.Raw(family == 4 ? 4 : 16);
    const std::uint32_t scope = family == 4 ? 0 : reader.Number<std::uint32_t>();
    if (!ip.empty()) candidate.at.ip = IpAddress::FromBytes(AsBytes(ip), scope);
    candidate.at.port = reader.Number<std::uint16_t>();
    candidate.prefix_bits = reader.Number<std::uint8_t>();
    const auto address_class = reader.Number<std::uint8_t>();
    if (address_class > static_cast<std::uint8_t>(AddressClass::kLoopback)) {
      return Fail(ErrorCode::kInvalidArgument, "candidate {} of a TCP address has class {}", i, address_class);
    }
    candidate.address_class = static_cast<AddressClass>(address_class);
    candidate.interface = reader.Text<std::uint8_t>();
    if (candidate.interface.size() > kMaxInterfaceBytes) {
      return Fail(ErrorCode::kInvalidArgument, "candidate {} of a TCP address has an interface of {} bytes; at most {}",
                  i, candidate.interface.size(), kMaxInterfaceBytes);
    }
    address.candidates.push_back(std::move(candidate));
  }
  if (!reader.ok()) {
    return Fail(ErrorCode::kInvalidArgument, "a TCP address ends after {} bytes, in the middle", text.size());
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
      if (same_host || !hosts_known) loopback.push_back({candidate.at, same_host ? "same host" : "loopback", "lo"});
      continue;
    }
    if (same_host) {  // the kernel keeps the traffic inside, whichever address it is
      routed.push_back({candidate.at, "same host", candidate.interface});
      continue;
    }
    if (ip.IsLinkLocal() && !ip.is_v4()) {  // its scope is the index of the peer's link; ours are the ones we have
      for (const LocalAddress& own : local) {
        if (own.up && own.ip.IsLinkLocal() && !own.ip.is_v4() && Classify(own) == AddressClass::kLinkLocal) {
          link_local.push_back({{ip.WithScope(own.ip.scope()), candidate.at.port}, "link-local", own.interface});
        }
      }
      continue;
    }
    const auto neighbour = std::find_if(local.begin(), local.end(), [&](const LocalAddress& own) {
      return own.up && Classify(own) != AddressClass::kLoopback && own.ip.SharesPrefix(ip, own.prefix_bits);
    });
    // A container bridge has the same subnet on every machine, so sharing it says nothing.
    const bool bridge = candidate.address_class == AddressClass::kVirtual ||
                        (neighbour != local.end() && Classify(*neighbour) == AddressClass::kVirtual);
    if (neighbour != local.end() && !bridge) {
      same_subnet.push_back({candidate.at, "same subnet", neighbour->interface});
    } else {
      routed.push_back({candidate.at, "routed", ""});
    }
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

std::vector<Attempt> InTurn(std::vector<Attempt> attempts, std::uint32_t rail) {
  const auto is_as_good = [&](const Attempt& attempt) {
    const IpAddress& ip = attempt.at.ip;
    const IpAddress& first = attempts.front().at.ip;
    return attempt.reason == attempts.front().reason && ip.is_v4() == first.is_v4() &&
           ip.IsLoopback() == first.IsLoopback();
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
