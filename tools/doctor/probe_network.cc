// Collects facts about the network: settings, names, and results of connection attempts.
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "base/net/resolve.h"
#include "tools/doctor/probe.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

using Outcome = Attempt::Outcome;

// The third number in a line like "4096 131072 6291456".
std::optional<std::uint64_t> ThirdNumber(const std::string& line) {
  std::istringstream words(line);
  std::string least, first, most;
  words >> least >> first >> most;
  return ParseNumber(most);
}

// An attempt in progress.
struct Dial {
  Fd socket;
  Attempt* attempt;
};

// Starts a connection attempt. `from`: the local address; null: the kernel chooses it.
void Start(const SocketAddress& to, const IpAddress* from, Attempt& attempt, std::vector<Dial>& dials) {
  auto socket = tcp::StartConnect(to, from, 0, {});
  if (socket) {
    dials.push_back({std::move(*socket), &attempt});
    return;
  }
  attempt.outcome = socket.error().code() == ErrorCode::kResource ? Outcome::kUntried : Outcome::kFailed;
  attempt.words = socket.error().message();
}

void Finish(std::vector<Dial>& dials, const Clock& clock, TimePoint deadline) {
  for (const Dial& dial : dials) dial.attempt->outcome = Outcome::kTimedOut;
  while (!dials.empty()) {
    std::vector<pollfd> set;
    for (const Dial& dial : dials) set.push_back({dial.socket.get(), POLLOUT, 0});
    const Duration left = std::max(deadline - clock.Now(), Duration::zero());
    const int ready =
        poll(set.data(), set.size(), static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return;
    for (std::size_t i = set.size(); i-- > 0;) {
      if (set[i].revents == 0) continue;
      Attempt& attempt = *dials[i].attempt;
      const int error = tcp::ConnectResult(dials[i].socket.get());
      attempt.outcome = error == 0              ? Outcome::kReached
                        : error == ECONNREFUSED ? Outcome::kRefused
                        : error == ETIMEDOUT    ? Outcome::kTimedOut
                                                : Outcome::kFailed;
      if (error != 0) attempt.words = tcp::SystemMessage(error);
      dials.erase(dials.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
}

void AskSelf(const Clock& clock, PortRange ports, NetworkFacts& facts) {
  std::vector<Fd> listeners;
  std::vector<Dial> dials;
  // reserved, because dials point to the elements of facts.self, which must not move
  facts.self.reserve(facts.addresses.size());
  for (const tcp::LocalAddress& address : facts.addresses) {
    if (!address.up) continue;
    Attempt& attempt = facts.self.emplace_back();
    attempt.from = address;
    auto listener = tcp::Listen({.ip = address.ip, .port = 0}, 4, /*dual_stack=*/false, {}, ports);
    if (!listener) {
      attempt.outcome = Outcome::kUntried;
      attempt.words = listener.error().message();
      continue;
    }
    Start(LocalSocketAddress(listener->get()), nullptr, attempt, dials);
    listeners.push_back(std::move(*listener));
  }
  Finish(dials, clock, clock.Now() + std::chrono::seconds(1));
}

// Whether an attempt makes sense: loopback reaches loopback only, link-local only link-local, and IPv4 only IPv4.
bool CouldReach(const tcp::LocalAddress& from, const IpAddress& to) {
  return from.up && from.ip.is_v4() == to.is_v4() && from.ip.IsLoopback() == to.IsLoopback() &&
         (from.ip.IsLinkLocal() == to.IsLinkLocal());
}

PeerFacts AskPeer(const std::string& name, const NetworkFacts& facts, const Clock& clock, TimePoint deadline) {
  PeerFacts peer;
  peer.name = name;
  const auto at = ParseHostPort(name);
  const auto resolved = at ? Resolve(*at, ResolveFor::kConnect, clock, deadline)
                           : Result<std::vector<SocketAddress>>(tl::unexpected(at.error()));
  if (!resolved) {
    peer.error = resolved.error().message();
    return peer;
  }
  const std::vector<SocketAddress>& targets = *resolved;
  for (const SocketAddress& target : targets) peer.tried.push_back(target.ip.ToString());
  std::vector<Dial> dials;
  std::vector<std::pair<std::size_t, Attempt>> tries;  // attempts, each with the index of its local address
  tries.reserve(targets.size() * facts.addresses.size());
  for (std::size_t i = 0; i < facts.addresses.size(); ++i)
    for (const SocketAddress& target : targets) {
      const tcp::LocalAddress& from = facts.addresses[i];
      if (!CouldReach(from, target.ip)) continue;
      Attempt& attempt = tries.emplace_back(i, Attempt{.from = from, .outcome = Outcome::kFailed, .words = {}}).second;
      Start(target, &from.ip, attempt, dials);
    }
  Finish(dials, clock, deadline);
  // Keep the best attempt from each local address.
  for (std::size_t i = 0; i < facts.addresses.size(); ++i) {
    const Attempt* best = nullptr;
    for (const auto& [index, attempt] : tries)
      if (index == i && (best == nullptr || attempt.outcome < best->outcome)) best = &attempt;
    if (best != nullptr) peer.attempts.push_back(*best);
  }
  return peer;
}

// The output of a command; "" if it does not exist or fails.
std::string OutputOf(const char* command) {
  std::string text;
  const auto close = [](FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> pipe(popen(command, "re"), close);
  char part[4096];
  for (std::size_t got; pipe && (got = fread(part, 1, sizeof part, pipe.get())) > 0;) text.append(part, got);
  return text;
}

std::string OutputOfTool(const std::string& words) {
  return OutputOf(("PATH=$PATH:/usr/sbin:/sbin; " + words + " 2>/dev/null").c_str());
}

void AskFirewall(NetworkFacts& facts) {
  if (geteuid() != 0) {
    facts.rules_unseen = "only root can see its rules; run rondo doctor as root to check them";
    return;
  }
  // A host without the command nft may have an iptables that uses nft's tables.
  const bool has_nft = !OutputOfTool("command -v nft").empty();
  const bool has_iptables = !OutputOfTool("command -v iptables || command -v iptables-legacy").empty();
  if (!has_nft && !has_iptables)
    facts.rules_unseen = "its rules cannot be listed, because neither nft nor iptables is installed";
  else if (has_nft)
    facts.dropping_chains = DroppingChains(OutputOfTool("nft -s list ruleset"));
  // nft does not show the rules of iptables-legacy.
  const std::vector<std::string> others = has_nft ? std::vector<std::string>{"iptables-legacy", "ip6tables-legacy"}
                                                  : std::vector<std::string>{"iptables", "ip6tables"};
  for (const std::string& tool : others)
    if (DropsTheRest(OutputOfTool(tool + " -S INPUT")))
      facts.dropping_chains.push_back(fmt::format("{} filter INPUT", tool));
}

// An address in the subnet of `own` that does not belong to this host. nullopt: the first addresses of the subnet all
// belong to this host, or the subnet has no others.
std::optional<IpAddress> OtherAddressIn(const tcp::LocalAddress& own, const std::vector<tcp::LocalAddress>& addresses) {
  constexpr std::uint32_t kTries = 64;
  if (!own.ip.is_v4() || own.prefix_bits < 1 || own.prefix_bits > 30) return std::nullopt;
  std::uint32_t number = 0;
  for (const std::byte byte : own.ip.bytes()) number = number << 8 | static_cast<std::uint32_t>(byte);
  const std::uint32_t hosts = (std::uint32_t{1} << (32 - own.prefix_bits)) - 1;
  for (std::uint32_t host = 1; host < std::min(hosts, kTries); ++host) {
    const std::uint32_t other = (number & ~hosts) | host;
    std::array<std::byte, 4> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(other >> (24 - 8 * i) & 0xFF);
    const IpAddress ip = IpAddress::FromBytes(bytes);
    if (std::none_of(addresses.begin(), addresses.end(), [&](const auto& address) { return address.ip == ip; }))
      return ip;
  }
  return std::nullopt;
}

// Finds detours: if two interfaces are in one subnet, asks the kernel through which interface packets from each
// address leave. This is done only for IPv4, because for IPv6 the kernel uses the interface of the address.
void AskDetours(NetworkFacts& facts) {
  const auto is_global = [](const tcp::LocalAddress& address) {
    return tcp::Classify(address) == tcp::AddressClass::kGlobal;
  };
  for (const tcp::LocalAddress& own : facts.addresses) {
    const bool shared =
        is_global(own) && std::any_of(facts.addresses.begin(), facts.addresses.end(), [&](const auto& a) {
          return is_global(a) && a.interface != own.interface && a.ip.SharesPrefix(own.ip, own.prefix_bits);
        });
    const auto other = shared ? OtherAddressIn(own, facts.addresses) : std::nullopt;
    if (!other) continue;
    const std::string by =
        InterfaceOfRoute(OutputOfTool(fmt::format("ip -o route get {} from {}", other->ToString(), own.ip.ToString())));
    if (!by.empty() && by != own.interface) facts.detours.push_back({.from = own, .by = by});
  }
}

// Whether a rule of nft has no matches and drops or rejects all: "counter drop", "reject with icmpx admin-prohibited".
bool EndsEverything(const std::string& rule) {
  std::istringstream words(rule);
  std::string word;
  while (words >> word && (word == "counter" || word == "packets" || word == "bytes" || ParseNumber(word))) {
  }
  return word == "drop" || word == "reject";
}

}  // namespace

std::vector<std::string> DroppingChains(const std::string& nft_ruleset) {
  std::vector<std::string> dropping;
  std::istringstream lines(nft_ruleset);
  std::string table, chain;
  bool sees_input = false, drops = false;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, family, name;
    words >> word;
    if (word == "table" && words >> family >> name) table = fmt::format("{} {}", family, name);
    if (word == "chain" && words >> name) {
      chain = name;
      sees_input = drops = false;
    } else if (word == "type" && line.find("hook input") != std::string::npos) {
      // The line is, for example, "type filter hook input priority filter; policy drop;".
      sees_input = true;
      drops = line.find("policy drop") != std::string::npos;
    } else if (word == "}") {
      if (sees_input && drops) dropping.push_back(fmt::format("nft {} {}", table, chain));
      sees_input = false;
    } else if (sees_input) {
      drops = drops || EndsEverything(line);
    }
  }
  return dropping;
}

bool DropsTheRest(const std::string& iptables_rules) {
  std::istringstream lines(iptables_rules);
  for (std::string line; std::getline(lines, line);)
    for (const char* const rest : {"-P INPUT DROP", "-A INPUT -j DROP", "-A INPUT -j REJECT"})
      if (line.starts_with(rest)) return true;
  return false;
}

std::string InterfaceOfRoute(const std::string& route) {
  std::istringstream words(route);
  for (std::string word; words >> word;)
    if (std::string name; word == "dev" && words >> name) return name;
  return "";
}

void ReadNetwork(const HostFiles& files, NetworkFacts& facts) {
  for (const tcp::LocalAddress& address : facts.addresses) {
    const std::string folder = "/sys/class/net/" + address.interface;
    facts.interfaces[address.interface] = {.mtu_bytes = files.Number(folder + "/mtu").value_or(0),
                                           .speed_mbps = files.Number(folder + "/speed").value_or(0)};
  }
  facts.listen_backlog_most = files.Number("/proc/sys/net/core/somaxconn");
  facts.send_buffer_most = ThirdNumber(files.Line("/proc/sys/net/ipv4/tcp_wmem"));
  facts.receive_buffer_most = ThirdNumber(files.Line("/proc/sys/net/ipv4/tcp_rmem"));
  std::istringstream range(files.Line("/proc/sys/net/ipv4/ip_local_port_range"));
  std::string first, last;
  if (range >> first >> last) facts.port_range = fmt::format("{} to {}", first, last);
}

NameFacts Lookup(const std::string& name, const Clock& clock, Duration timeout) {
  NameFacts facts;
  facts.name = name;
  const auto resolved = Resolve({.host = name, .port = 1}, ResolveFor::kConnect, clock, clock.Now() + timeout);
  if (!resolved) {
    facts.error = resolved.error().message();
    return facts;
  }
  for (const SocketAddress& address : *resolved) facts.addresses.push_back(address.ip);
  return facts;
}

void AskNetwork(const NetworkQuestions& questions, const Clock& clock, NetworkFacts& facts) {
  facts.host = Lookup(LocalHostName(), clock, questions.timeout);
  facts.congestion_control = tcp::SystemCongestionControl();
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string obtained = tcp::SetCongestionControl(socket.get(), TcpOptions{}.local_congestion_control);
  facts.local_congestion_control = obtained.substr(0, obtained.find(';'));  // refused algorithms follow the ';'
  AskSelf(clock, questions.ports, facts);
  AskDetours(facts);
  AskFirewall(facts);
  for (const std::string& peer : questions.peers)
    facts.peers.push_back(AskPeer(peer, facts, clock, clock.Now() + questions.timeout));
}

}  // namespace rondo
