// What the network tells: settings, names, and attempts at connections.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "rendezvous/net_address.h"
#include "tools/doctor_probe.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

using Outcome = Attempt::Outcome;

// The third of "4096 131072 6291456".
std::optional<std::uint64_t> ThirdNumber(const std::string& line) {
  std::istringstream words(line);
  std::string least, first, most;
  words >> least >> first >> most;
  return ParseNumber(most);
}

// An attempt that is under way.
struct Dial {
  Fd socket;
  Attempt* attempt;
};

// `from` null: the kernel chooses.
void Start(const tcp::SocketAddress& to, const tcp::IpAddress* from, Attempt& attempt, std::vector<Dial>& dials) {
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

void AskSelf(const Clock& clock, NetworkFacts& facts) {
  std::vector<Fd> listeners;
  std::vector<Dial> dials;
  facts.self.reserve(facts.addresses.size());  // attempts are pointed at
  for (const tcp::LocalAddress& address : facts.addresses) {
    if (!address.up) continue;
    Attempt& attempt = facts.self.emplace_back();
    attempt.from = address;
    auto listener = tcp::Listen({.ip = address.ip, .port = 0}, 4, /*dual_stack=*/false, {});
    if (!listener) {
      attempt.outcome = Outcome::kUntried;
      attempt.words = listener.error().message();
      continue;
    }
    Start(tcp::LocalSocketAddress(listener->get()), nullptr, attempt, dials);
    listeners.push_back(std::move(*listener));
  }
  Finish(dials, clock, clock.Now() + std::chrono::seconds(1));
}

// Whether it makes sense to try: loopback reaches loopback alone, and one family not the other.
bool CouldReach(const tcp::LocalAddress& from, const tcp::IpAddress& to) {
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
  std::vector<tcp::SocketAddress> targets;
  for (const SocketAddress& address : *resolved) {
    const auto target = tcp::FromRaw(address.get());
    if (!target) continue;
    targets.push_back(*target);
    peer.tried.push_back(target->ip.ToString());
  }
  std::vector<Dial> dials;
  std::vector<std::pair<std::size_t, Attempt>> tries;  // by index of the local address
  tries.reserve(targets.size() * facts.addresses.size());
  for (std::size_t i = 0; i < facts.addresses.size(); ++i)
    for (const tcp::SocketAddress& target : targets) {
      const tcp::LocalAddress& from = facts.addresses[i];
      if (!CouldReach(from, target.ip)) continue;
      Attempt& attempt = tries.emplace_back(i, Attempt{.from = from, .outcome = Outcome::kFailed, .words = {}}).second;
      Start(target, &from.ip, attempt, dials);
    }
  Finish(dials, clock, deadline);
  // Of each local address the best of what it came to.
  for (std::size_t i = 0; i < facts.addresses.size(); ++i) {
    const Attempt* best = nullptr;
    for (const auto& [index, attempt] : tries)
      if (index == i && (best == nullptr || attempt.outcome < best->outcome)) best = &attempt;
    if (best != nullptr) peer.attempts.push_back(*best);
  }
  return peer;
}

// What a program says; "" where it is not there, or fails.
std::string OutputOf(const char* command) {
  std::string text;
  const auto close = [](FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> pipe(popen(command, "re"), close);
  char part[4096];
  for (std::size_t got; pipe && (got = fread(part, 1, sizeof part, pipe.get())) > 0;) text.append(part, got);
  return text;
}

void AskFirewall(NetworkFacts& facts) {
  if (geteuid() != 0) {
    facts.rules_hidden = true;
    return;
  }
  const std::string path = "PATH=$PATH:/usr/sbin:/sbin ";
  facts.dropping_chains = DroppingChains(OutputOf((path + "nft list chains 2>/dev/null").c_str()));
  // Where it is the old one, nft does not see what it does.
  for (const char* const tool : {"iptables-legacy", "ip6tables-legacy"})
    if (OutputOf((path + tool + " -S INPUT 2>/dev/null").c_str()).starts_with("-P INPUT DROP"))
      facts.dropping_chains.push_back(fmt::format("{} filter INPUT", tool));
}

}  // namespace

std::vector<std::string> DroppingChains(const std::string& nft_chains) {
  std::vector<std::string> dropping;
  std::istringstream lines(nft_chains);
  std::string table, chain;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, family, name;
    words >> word;
    if (word == "table" && words >> family >> name) table = fmt::format("{} {}", family, name);
    if (word == "chain" && words >> name) chain = name;
    // type filter hook input priority filter; policy drop;
    if (word == "type" && line.find("hook input") != std::string::npos && line.find("policy drop") != std::string::npos)
      dropping.push_back(fmt::format("nft {} {}", table, chain));
  }
  return dropping;
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
  for (const SocketAddress& address : *resolved)
    if (const auto ip = tcp::FromRaw(address.get())) facts.addresses.push_back(ip->ip);
  return facts;
}

void AskNetwork(const NetworkQuestions& questions, const Clock& clock, NetworkFacts& facts) {
  facts.host = Lookup(LocalHostName(), clock, questions.timeout);
  facts.congestion_control = tcp::SystemCongestionControl();
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string obtained = tcp::SetCongestionControl(socket.get(), TcpOptions{}.local_congestion_control);
  facts.local_congestion_control = obtained.substr(0, obtained.find(';'));  // then come those that were refused
  AskSelf(clock, facts);
  AskFirewall(facts);
  for (const std::string& peer : questions.peers)
    facts.peers.push_back(AskPeer(peer, facts, clock, clock.Now() + questions.timeout));
}

}  // namespace rondo
