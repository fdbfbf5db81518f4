#include "tools/run/host_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "tools/common/comma_list.h"

namespace rondo {
namespace {

constexpr std::string_view kWanted = "expected HOST[:RANKS],... like a,b:4,user@c,[fe80::1]:2";
constexpr int kMaxRanks = 1'000'000;

// Whether ssh and a shell treat the text only as a name. For example, they would treat a text that begins with "-" as
// an option.
bool IsName(std::string_view text) {
  constexpr std::string_view kBeside = "._-%:";
  return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kBeside.find(c) != std::string_view::npos;
  });
}

Result<HostEntry> ParseHost(std::string_view text) {
  const auto wrong = [whole = text](std::string_view what) {
    return Fail(ErrorCode::kInvalidArgument, "{}: '{}' {}", kWanted, whole, what);
  };
  HostEntry host;
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    host.user = text.substr(0, at);
    if (!IsName(host.user)) return wrong("has an invalid user");
    text.remove_prefix(at + 1);
  }
  std::string_view rest;
  if (text.starts_with('[')) {
    const std::size_t end = std::min(text.find(']'), text.size());
    host.name = text.substr(1, end - 1);
    rest = end == text.size() ? "" : text.substr(end + 1);
    if (end == text.size() || host.name.find(':') == std::string::npos) return wrong("has no IPv6 address in brackets");
    if (!rest.empty() && !rest.starts_with(':')) return wrong("has other text than :RANKS after the bracket");
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    host.name = text.substr(0, colon);
    rest = text.substr(colon);
    if (rest.find(':', 1) != std::string_view::npos) return wrong("is an IPv6 address without brackets");
  }
  if (!IsName(host.name)) return wrong(host.name.empty() ? "has no host" : "has an invalid host");
  if (rest.empty()) return host;
  rest.remove_prefix(1);
  int ranks = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), ranks);
  if (error != std::errc() || end != rest.data() + rest.size() || ranks < 1 || ranks > kMaxRanks) {
    return wrong(fmt::format("has '{}' instead of a number of ranks", rest));
  }
  host.ranks = ranks;
  return host;
}

}  // namespace

std::string HostEntry::ToString() const { return user.empty() ? name : fmt::format("{}@{}", user, name); }

Result<std::vector<HostEntry>> ParseHosts(std::string_view list) {
  std::vector<HostEntry> hosts;
  for (const std::string& item : SplitAtCommas(list)) {
    RONDO_ASSIGN(HostEntry host, ParseHost(item));
    const bool again =
        std::any_of(hosts.begin(), hosts.end(), [&](const HostEntry& other) { return other.name == host.name; });
    if (again)
      return Fail(ErrorCode::kInvalidArgument, "the list names '{}' twice; give {}:RANKS once", host.name, host.name);
    hosts.push_back(std::move(host));
  }
  return hosts;
}

bool IsThisHost(const HostEntry& host, std::string_view own_name) {
  return host.user.empty() &&
         (host.name == "localhost" || host.name.starts_with("127.") || host.name == "::1" || host.name == own_name);
}

Result<std::vector<PlacedHost>> PlaceRanks(const std::vector<HostEntry>& hosts, int ranks, std::string_view own_name) {
  int left = ranks;
  int without_number = 0;
  std::vector<PlacedHost> all;
  for (const HostEntry& host : hosts) {
    PlacedHost& placed = all.emplace_back(PlacedHost{host, IsThisHost(host, own_name), {}});
    const auto same = std::find_if(all.begin(), all.end(), [](const PlacedHost& other) { return other.here; });
    if (placed.here && &*same != &placed) {
      return Fail(ErrorCode::kInvalidArgument, "'{}' and '{}' are both this host", same->host.name, host.name);
    }
    if (!host.ranks) ++without_number;
    placed.ranks.count = std::min(host.ranks.value_or(0), left);
    left -= placed.ranks.count;
  }
  if (left > 0 && without_number == 0) {
    return Fail(ErrorCode::kInvalidArgument, "the list has room for {} ranks, but -N asks for {}", ranks - left, ranks);
  }
  Rank first = 0;
  const int sharing = std::max(without_number, 1);
  int sharers = 0;  // how many of the hosts without a given number of ranks already have their ranks
  std::vector<PlacedHost> used;
  for (PlacedHost& placed : all) {
    if (!placed.host.ranks) placed.ranks.count = left / sharing + (sharers++ < left % sharing ? 1 : 0);
    if (placed.ranks.count == 0) continue;
    placed.ranks.first = first;
    first += placed.ranks.count;
    used.push_back(std::move(placed));
  }
  return used;
}

}  // namespace rondo
