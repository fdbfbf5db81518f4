// rondo doctor: judges addresses, names, reachability, and the kernel's limits for TCP.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/doctor/findings.h"
#include "transport/tcp/address.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

using tcp::AddressClass;

const InterfaceFacts* FactsOf(const NetworkFacts& facts, const std::string& interface) {
  const auto found = facts.interfaces.find(interface);
  return found == facts.interfaces.end() ? nullptr : &found->second;
}

std::string Speed(std::uint64_t mbps) {
  return mbps % 1000 == 0 ? fmt::format("{} Gbit/s", mbps / 1000) : fmt::format("{} Mbit/s", mbps);
}

std::string DescribeAddress(const NetworkFacts& facts, const tcp::LocalAddress& address) {
  std::string text = fmt::format("{}, {}", address.interface, Describe(Classify(address)));
  if (!address.devices.empty()) text += fmt::format(", RDMA {}", fmt::join(address.devices, " "));
  if (const InterfaceFacts* const interface = FactsOf(facts, address.interface)) {
    if (interface->mtu_bytes > 0) text += fmt::format(", MTU {}", interface->mtu_bytes);
    if (interface->speed_mbps > 0) text += ", " + Speed(interface->speed_mbps);
  }
  return text;
}

// Whether ranks on other hosts can be expected to reach this address.
bool IsCandidate(const tcp::LocalAddress& address) { return Classify(address) == AddressClass::kGlobal; }

Finding JudgeCandidates(const std::vector<tcp::LocalAddress>& candidates, const std::vector<tcp::LocalAddress>& all) {
  if (!candidates.empty()) return {};
  const bool bridges =
      std::any_of(all.begin(), all.end(), [](const auto& a) { return Classify(a) == AddressClass::kVirtual; });
  return {Level::kWarn, "addresses",
          bridges ? "only loopback and bridges to containers of this host: ranks on other hosts cannot reach this host"
                  : "only addresses that are loopback, link-local or of interfaces that are down: ranks on other hosts "
                    "cannot reach this host",
          "bring an interface with an address up (ip addr), or give the container the host's network (--network host); "
          "a job on this host alone needs none"};
}

// If this host is in several networks, a job uses only one of them. Reports which one.
void JudgeNetworks(const std::vector<tcp::LocalAddress>& candidates, std::vector<Finding>& findings) {
  std::vector<tcp::Candidate> published;
  for (const tcp::LocalAddress& address : candidates)
    published.push_back({.at = {address.ip, 0},
                         .prefix_bits = address.prefix_bits,
                         .address_class = Classify(address),
                         .interface = address.interface,
                         .mbps = address.mbps});
  const tcp::NetworkChoice networks = tcp::DescribeNetworks(published);
  if (networks.text.empty()) return;
  Finding finding{networks.speeds_unknown ? Level::kWarn : Level::kOk, "networks", networks.text};
  if (networks.speeds_unknown)
    finding.remedy =
        fmt::format("name the fast interface: --interface {} (options.interface, RONDO_INTERFACE of rondo_torch)",
                    published.back().interface);
  findings.push_back(std::move(finding));
}

void JudgeMtus(const NetworkFacts& facts, const std::vector<tcp::LocalAddress>& candidates,
               std::vector<Finding>& findings) {
  std::map<std::uint64_t, std::set<std::string>> by_mtu;
  for (const tcp::LocalAddress& address : candidates)
    if (const auto* const interface = FactsOf(facts, address.interface); interface && interface->mtu_bytes > 0)
      by_mtu[interface->mtu_bytes].insert(address.interface);
  if (by_mtu.size() < 2) return;
  std::vector<std::string> texts;
  for (const auto& [mtu, names] : by_mtu) texts.push_back(fmt::format("{} has {}", fmt::join(names, " "), mtu));
  findings.push_back({Level::kWarn, "MTU",
                      fmt::format("the interfaces have different MTUs: {}; if a path does not support the larger MTU, "
                                  "large messages hang although small ones arrive",
                                  fmt::join(texts, ", ")),
                      "test each interface by ping -M do -s MTU-28 PEER; select the interface by --interface"});
}

Finding JudgeHostName(const NameFacts& host) {
  const std::string subject = fmt::format("host name {}", host.name);
  const auto in_hosts =
      fmt::format("add a line 'ADDRESS {}' with an address that peers can reach to /etc/hosts", host.name);
  if (host.addresses.empty())
    return {Level::kWarn, subject,
            fmt::format("does not resolve ({}); Rondo publishes addresses, but torchrun and Gloo look names up",
                        host.error.empty() ? "no address" : host.error),
            in_hosts + ", or set GLOO_SOCKET_IFNAME for Gloo"};
  std::vector<std::string> texts;
  for (const IpAddress& ip : host.addresses) texts.push_back(ip.ToString());
  const std::string all = fmt::format("{}", fmt::join(texts, ", "));
  if (std::all_of(host.addresses.begin(), host.addresses.end(), [](const auto& ip) { return ip.IsLoopback(); }))
    return {Level::kWarn, subject,
            fmt::format("resolves to loopback only ({}); Rondo publishes addresses, but torchrun and Gloo tell peers "
                        "to connect there",
                        all),
            in_hosts + ", or set GLOO_SOCKET_IFNAME for Gloo"};
  return {Level::kOk, subject, "resolves to " + all};
}

std::string Words(const Attempt& attempt) {
  switch (attempt.outcome) {
    case Attempt::Outcome::kReached: return "connected";
    case Attempt::Outcome::kRefused: return "refused";
    case Attempt::Outcome::kTimedOut: return "timed out";
    case Attempt::Outcome::kFailed:
    case Attempt::Outcome::kUntried: break;
  }
  return attempt.words;
}

std::string From(const Attempt& attempt) {
  return fmt::format("{} ({})", attempt.from.ip.ToString(), attempt.from.interface);
}

// Lists the local addresses of the attempts that had this outcome.
std::string ListOf(const std::vector<Attempt>& attempts, Attempt::Outcome outcome) {
  std::vector<std::string> texts;
  for (const Attempt& attempt : attempts)
    if (attempt.outcome == outcome) texts.push_back(From(attempt));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string ListOfRest(const std::vector<Attempt>& attempts, Attempt::Outcome outcome) {
  std::vector<std::string> texts;
  for (const Attempt& attempt : attempts)
    if (attempt.outcome != outcome) texts.push_back(fmt::format("{}: {}", From(attempt), Words(attempt)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Finding JudgePeer(const PeerFacts& peer) {
  const std::string subject = "peer " + peer.name;
  if (!peer.error.empty())
    return {Level::kBad, subject, peer.error, "give an address, or add the name to /etc/hosts or to the name server"};
  const std::string to = fmt::format("{}", fmt::join(peer.tried, ", "));
  if (peer.attempts.empty())
    return {Level::kBad, subject, fmt::format("this host has no address of the family (IPv4 or IPv6) of {}", to),
            "give an interface an address of the same family"};
  const auto has = [&](Attempt::Outcome outcome) {
    return std::any_of(peer.attempts.begin(), peer.attempts.end(),
                       [&](const Attempt& attempt) { return attempt.outcome == outcome; });
  };
  using Outcome = Attempt::Outcome;
  const bool reached = has(Outcome::kReached);
  // The peer sends a refusal, so a refusal means that packets reach the peer.
  const Outcome best = reached ? Outcome::kReached : Outcome::kRefused;
  if (!has(best))
    return {Level::kBad, subject, fmt::format("unreachable at {}: {}", to, ListOfRest(peer.attempts, best)),
            has(Outcome::kTimedOut) ? "no answer: look at the peer's firewall and at the route (ip route get ADDRESS)"
                                    : "look at the route (ip route get ADDRESS)"};
  std::string what = fmt::format("{} from {}", reached ? "reached" : "no process listens there, but the host answers",
                                 ListOf(peer.attempts, best));
  const std::string rest = ListOfRest(peer.attempts, best);
  if (!rest.empty()) what += "; not from " + rest;
  if (!reached)
    return {Level::kWarn, subject, what,
            "start the process that should listen (rondo store --listen HOST:PORT), or give its port"};
  if (!rest.empty())
    return {Level::kWarn, subject, what,
            "ranks use the addresses that reach the peer; select only these by --interface or --address, or repair the "
            "route and the firewall"};
  return {Level::kOk, subject, what};
}

}  // namespace

std::vector<Finding> JudgeInterfaces(const NetworkFacts& facts) {
  std::vector<Finding> findings;
  if (!facts.addresses_error.empty()) {
    findings.push_back({Level::kBad, "addresses", facts.addresses_error, "no transport can start without addresses"});
    return findings;
  }
  // The order of addresses and its description are those that Rondo itself uses.
  const auto order = tcp::ChooseAddresses(facts.addresses, {}, "");
  const std::vector<tcp::LocalAddress> all = order ? *order : std::vector<tcp::LocalAddress>();
  std::vector<tcp::LocalAddress> candidates;
  std::copy_if(all.begin(), all.end(), std::back_inserter(candidates), IsCandidate);
  bool first = true;
  for (const tcp::LocalAddress& address : all) {
    Finding finding{Level::kOk, address.ip.ToString(), DescribeAddress(facts, address)};
    if (IsCandidate(address)) {
      if (first)
        finding.what +=
            candidates.size() > 1
                ? fmt::format("; peers try it first of {} addresses, unless another one is in their own subnet",
                              candidates.size())
                : "; peers try it first, because it is the only one of its kind";
      first = false;
    }
    findings.push_back(std::move(finding));
  }
  if (Finding none = JudgeCandidates(candidates, all); none.level != Level::kOk) findings.push_back(std::move(none));
  JudgeNetworks(candidates, findings);
  JudgeMtus(facts, candidates, findings);
  findings.push_back(JudgeHostName(facts.host));
  return findings;
}

std::vector<Finding> JudgeReach(const NetworkFacts& facts) {
  std::vector<Finding> findings;
  std::size_t reached = 0;
  for (const Attempt& attempt : facts.self) {
    if (attempt.outcome == Attempt::Outcome::kReached) {
      ++reached;
      continue;
    }
    if (attempt.outcome == Attempt::Outcome::kUntried) {
      findings.push_back({Level::kWarn, attempt.from.ip.ToString(),
                          fmt::format("could not be tried: {}", Words(attempt)),
                          "if there are too few file descriptors: ulimit -n 1024; an IPv6 address is tentative for two "
                          "seconds after its interface came up (ip addr)"});
      continue;
    }
    // Peers try these addresses before all others, so a failure at another address is only a warning.
    const bool needed = IsCandidate(attempt.from) || attempt.from.ip.IsLoopback();
    findings.push_back({needed ? Level::kBad : Level::kWarn, attempt.from.ip.ToString(),
                        fmt::format("this host cannot connect to its own port at this address: {}", Words(attempt)),
                        attempt.from.ip.IsLoopback()
                            ? "allow loopback: nft add rule inet filter input iif lo accept"
                            : "look at the rules for INPUT and OUTPUT (nft list ruleset, iptables -S)"});
  }
  if (reached > 0)
    findings.push_back(
        {Level::kOk, "own ports",
         fmt::format("{} of {} addresses accept connections from this host", reached, facts.self.size())});
  for (const auto& [from, by] : facts.detours)
    findings.push_back(
        {Level::kWarn, from.ip.ToString(),
         fmt::format(
             "packets from this address to its own subnet leave by {} instead of {}: both ports share the link of one",
             by, from.interface),
         fmt::format(
             "use a subnet for each port, or a routing table for each: ip route add SUBNET dev {} table 101; ip rule "
             "add from {} lookup 101; and sysctl net.ipv4.conf.all.arp_ignore=1 arp_announce=2 rp_filter=2",
             from.interface, from.ip.ToString())});
  for (const std::string& chain : facts.dropping_chains)
    findings.push_back(
        {Level::kWarn, "firewall", fmt::format("{} drops or rejects packets that none of its rules accepts", chain),
         fmt::format("accept TCP from the hosts of the job to the ports that Rondo listens on, which --ports and "
                     "RONDO_PORTS restrict to a range{}: {}",
                     facts.port_range.empty() ? "" : " (" + facts.port_range + ")",
                     chain.starts_with("nft ") ? "nft insert rule " + chain.substr(4) + " ip saddr SUBNET accept"
                                               : "iptables -I INPUT -s SUBNET -j ACCEPT")});
  if (facts.dropping_chains.empty())
    findings.push_back({Level::kOk, "firewall",
                        facts.rules_unseen.empty() ? "drops or rejects nothing by default" : facts.rules_unseen});
  for (const PeerFacts& peer : facts.peers) findings.push_back(JudgePeer(peer));
  return findings;
}

std::vector<Finding> JudgeTcp(const NetworkFacts& facts) {
  std::vector<Finding> findings;
  const auto backlog = static_cast<std::uint64_t>(TcpOptions{}.listen_backlog);
  if (facts.listen_backlog_most && *facts.listen_backlog_most < backlog)
    findings.push_back(
        {Level::kWarn, "net.core.somaxconn",
         fmt::format("{} limits Rondo's queue of incoming connections ({}): if many ranks connect at once, some wait a "
                     "second before they retry",
                     *facts.listen_backlog_most, backlog),
         "sysctl -w net.core.somaxconn=4096"});
  // The full speed of a path needs a buffer of the speed times the round-trip time. This check assumes half a
  // millisecond, as in a data centre.
  std::uint64_t fastest_mbps = 0;
  for (const tcp::LocalAddress& address : facts.addresses)
    if (const auto* const interface = FactsOf(facts, address.interface); interface && IsCandidate(address))
      fastest_mbps = std::max(fastest_mbps, interface->speed_mbps);
  constexpr std::uint64_t kMiB = 1024 * 1024, kBytesPerMbps = 1'000'000 / 8 / 2000;
  const std::uint64_t need = std::max(kMiB, fastest_mbps * kBytesPerMbps);
  const auto buffer = [&](const char* name, const std::optional<std::uint64_t>& most) {
    if (!most || *most >= need) return;
    findings.push_back(
        {Level::kWarn, name,
         fmt::format("socket buffers may grow to {} KiB; {} needs {} KiB", *most / 1024,
                     fastest_mbps > 0 ? Speed(fastest_mbps) + " with a round trip of 0.5 ms" : "a network",
                     need / 1024),
         fmt::format("sysctl -w {}='4096 131072 {}'", name, std::max(need, 16 * kMiB))});
  };
  buffer("net.ipv4.tcp_wmem", facts.send_buffer_most);
  buffer("net.ipv4.tcp_rmem", facts.receive_buffer_most);
  if (facts.local_congestion_control == "bbr")
    findings.push_back({Level::kWarn, "congestion control",
                        "bbr, and this user is not allowed to choose another: its pacing halves the speed of small "
                        "writes within a host",
                        "sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic bbr' (modprobe tcp_cubic)"});
  else if (!facts.congestion_control.empty())
    findings.push_back(
        {Level::kOk, "congestion control",
         facts.local_congestion_control.empty() || facts.local_congestion_control == facts.congestion_control
             ? facts.congestion_control
             : fmt::format("{}; within a host {}", facts.congestion_control, facts.local_congestion_control)});
  return findings;
}

}  // namespace rondo
