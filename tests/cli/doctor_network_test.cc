// Tests what rondo doctor reports about addresses, names, attempts to connect, and settings of TCP.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/cli/doctor_findings.h"
#include "tools/doctor/findings.h"

namespace rondo {
namespace doctor_network_test {

using Outcome = Attempt::Outcome;

NetworkFacts Sound() {
  NetworkFacts facts;
  facts.addresses = {At("lo", "127.0.0.1"), At("docker0", "172.17.0.1"), At("eth0", "10.0.0.1")};
  facts.interfaces = {{"eth0", {.mtu_bytes = 1500, .speed_mbps = 10'000}}, {"lo", {.mtu_bytes = 65536}}};
  facts.host = {.name = "node1", .addresses = {Ip("10.0.0.1")}, .error = ""};
  facts.listen_backlog_most = 4096;
  facts.send_buffer_most = facts.receive_buffer_most = 16 << 20;
  facts.congestion_control = facts.local_congestion_control = "cubic";
  return facts;
}

Attempt From(const std::string& interface, std::string_view ip, Outcome outcome, std::string words = "") {
  return {.from = At(interface, ip), .outcome = outcome, .words = std::move(words)};
}

Finding OfPeer(PeerFacts peer) {
  NetworkFacts facts = Sound();
  facts.peers = {std::move(peer)};
  const auto findings = JudgeReach(facts);
  CheckRemedies(findings);
  return About(findings, "peer ");
}

TEST_CASE("a sound network has nothing but ok, in Rondo's order of addresses") {
  const auto findings = JudgeInterfaces(Sound());
  for (const Finding& finding : findings) CHECK(finding.level == Level::kOk);
  REQUIRE(findings.size() == 4);
  CHECK(findings[0].subject == "10.0.0.1");
  CHECK(findings[0].what ==
        "eth0, global, MTU 1500, 10 Gbit/s; peers try it first, because it is the only one of its kind");
  CHECK(Contains(findings[1].what, "container bridge"));
  CHECK(Contains(findings[2].what, "loopback"));
  for (const Finding& finding : JudgeTcp(Sound())) CHECK(finding.level == Level::kOk);
}

TEST_CASE("loopback and bridges alone reach no other host, which is a warning") {
  NetworkFacts facts = Sound();
  facts.addresses.pop_back();
  Finding finding = About(JudgeInterfaces(facts), "addresses");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "bridges to containers"));
  facts.addresses.pop_back();
  finding = About(JudgeInterfaces(facts), "addresses");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "only addresses that are loopback"));
  CheckRemedies(JudgeInterfaces(facts));
}

TEST_CASE("differing MTUs are reported of interfaces that ranks may use, not of loopback") {
  NetworkFacts facts = Sound();
  CHECK(About(JudgeInterfaces(facts), "MTU").subject.empty());
  facts.addresses.push_back(At("ib0", "10.1.0.1"));
  facts.interfaces["ib0"].mtu_bytes = 4092;
  const Finding finding = About(JudgeInterfaces(facts), "MTU");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "eth0 has 1500, ib0 has 4092"));
}

TEST_CASE("several networks are named in the order in which they are taken, with a warning where speeds are unknown") {
  NetworkFacts facts = Sound();
  CHECK(About(JudgeInterfaces(facts), "networks").subject.empty());
  facts.addresses.push_back(At("ib0", "192.168.9.1"));
  Finding finding = About(JudgeInterfaces(facts), "networks");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "2 networks, tried in this order: eth0 (speed unknown), then ib0 (speed unknown)"));
  CHECK(Contains(finding.remedy, "--interface ib0"));
  facts.addresses[2].mbps = 1000;
  facts.addresses[3].mbps = 100'000;
  finding = About(JudgeInterfaces(facts), "networks");
  CHECK(finding.level == Level::kOk);
  CHECK(finding.what == "2 networks, tried in this order: ib0 (100 Gbit/s), then eth0 (1 Gbit/s)");
}

TEST_CASE("a host name that is loopback only, or nothing, is a warning; one that is both is none") {
  NetworkFacts facts = Sound();
  facts.host.addresses = {Ip("127.0.1.1"), Ip("::1")};
  Finding finding = About(JudgeInterfaces(facts), "host name");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "127.0.1.1, ::1"));
  CHECK(Contains(finding.remedy, "/etc/hosts"));
  facts.host.addresses.push_back(Ip("10.0.0.1"));
  CHECK(About(JudgeInterfaces(facts), "host name").level == Level::kOk);
  facts.host = {.name = "node1", .addresses = {}, .error = "Name or service not known"};
  finding = About(JudgeInterfaces(facts), "host name");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "Name or service not known"));
}

TEST_CASE("a port of its own that this host cannot reach is bad; one that it had no descriptor for is not") {
  NetworkFacts facts = Sound();
  facts.self = {From("lo", "127.0.0.1", Outcome::kReached), From("eth0", "10.0.0.1", Outcome::kTimedOut)};
  auto findings = JudgeReach(facts);
  CheckRemedies(findings);
  CHECK(About(findings, "10.0.0.1").level == Level::kBad);
  CHECK(Contains(About(findings, "10.0.0.1").what, "timed out"));
  CHECK(About(findings, "own ports").what == "1 of 2 addresses accept connections from this host");
  facts.self = {From("eth0", "10.0.0.1", Outcome::kUntried, "Too many open files")};
  findings = JudgeReach(facts);
  CHECK(About(findings, "10.0.0.1").level == Level::kWarn);
  CHECK(Contains(About(findings, "10.0.0.1").remedy, "ulimit -n"));
}

TEST_CASE("a firewall that drops by default is a warning with the ports that Rondo takes") {
  NetworkFacts facts = Sound();
  facts.dropping_chains = {"nft inet filter input"};
  facts.port_range = "32768 to 60999";
  const Finding finding = About(JudgeReach(facts), "firewall");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "nft inet filter input"));
  CHECK(Contains(finding.remedy, "32768 to 60999): nft insert rule inet filter input ip saddr SUBNET accept"));
}

TEST_CASE("rules that are not seen are no warning, and are not called none") {
  NetworkFacts facts = Sound();
  CHECK(Contains(About(JudgeReach(facts), "firewall").what, "nothing by default"));
  facts.rules_unseen = "for root to see";
  CHECK(About(JudgeReach(facts), "firewall").level == Level::kOk);
  CHECK(About(JudgeReach(facts), "firewall").what == "for root to see");
}

TEST_CASE("an address whose packets leave by another port is a warning with both") {
  NetworkFacts facts = Sound();
  facts.detours = {
      {.from = {.interface = "eth1", .ip = *IpAddress::Parse("10.0.0.2"), .prefix_bits = 24}, .by = "eth0"}};
  const Finding finding = About(JudgeReach(facts), "10.0.0.2");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "leave by eth0 instead of eth1"));
  CHECK(Contains(finding.remedy, "ip rule add from 10.0.0.2 lookup"));
}

TEST_CASE("a peer that every address reaches is ok") {
  const Finding finding = OfPeer({.name = "node2:22",
                                  .error = "",
                                  .tried = {"10.0.0.2"},
                                  .attempts = {From("eth0", "10.0.0.1", Outcome::kReached)}});
  CHECK(finding.level == Level::kOk);
  CHECK(finding.what == "reached from 10.0.0.1 (eth0)");
}

TEST_CASE("of a peer that some addresses reach it is said which do not, and why") {
  const Finding finding =
      OfPeer({.name = "node2:22",
              .error = "",
              .tried = {"10.0.0.2"},
              .attempts = {From("eth0", "10.0.0.1", Outcome::kReached), From("eth1", "10.1.0.1", Outcome::kTimedOut)}});
  CHECK(finding.level == Level::kWarn);
  CHECK(finding.what == "reached from 10.0.0.1 (eth0); not from 10.1.0.1 (eth1): timed out");
}

TEST_CASE("refused means that the host is there and no process listens") {
  const Finding finding = OfPeer({.name = "node2:1",
                                  .error = "",
                                  .tried = {"10.0.0.2"},
                                  .attempts = {From("eth0", "10.0.0.1", Outcome::kRefused)}});
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "no process listens there, but the host answers"));
}

TEST_CASE("a peer that nothing reaches is bad: firewall where no host answers, else the route") {
  PeerFacts peer{.name = "node2:22",
                 .error = "",
                 .tried = {"10.0.0.2"},
                 .attempts = {From("eth0", "10.0.0.1", Outcome::kTimedOut)}};
  CHECK(OfPeer(peer).level == Level::kBad);
  CHECK(Contains(OfPeer(peer).remedy, "firewall"));
  peer.attempts = {From("eth0", "10.0.0.1", Outcome::kFailed, "No route to host")};
  CHECK(OfPeer(peer).level == Level::kBad);
  CHECK(Contains(OfPeer(peer).what, "No route to host"));
  CHECK(!Contains(OfPeer(peer).remedy, "firewall"));
  peer.attempts.clear();
  CHECK(OfPeer(peer).level == Level::kBad);
  CHECK(OfPeer({.name = "x:1", .error = "host 'x' was not found", .tried = {}, .attempts = {}}).level == Level::kBad);
}

TEST_CASE("a short queue of callers and small buffers are warnings with the setting") {
  NetworkFacts facts = Sound();
  facts.listen_backlog_most = 128;
  facts.send_buffer_most = 212992;
  const auto findings = JudgeTcp(facts);
  CheckRemedies(findings);
  CHECK(About(findings, "net.core.somaxconn").level == Level::kWarn);
  CHECK(About(findings, "net.ipv4.tcp_wmem").level == Level::kWarn);
  CHECK(Contains(About(findings, "net.ipv4.tcp_wmem").remedy, "sysctl -w net.ipv4.tcp_wmem="));
  CHECK(About(findings, "net.ipv4.tcp_rmem").subject.empty());
}

TEST_CASE("a faster interface needs larger buffers") {
  NetworkFacts facts = Sound();
  facts.send_buffer_most = facts.receive_buffer_most = 6 << 20;
  CHECK(About(JudgeTcp(facts), "net.ipv4.tcp_wmem").subject.empty());
  facts.interfaces["eth0"].speed_mbps = 100'000;  // the bandwidth-delay product of 100 Gbit/s and 0.5 ms is 6.25 MB
  facts.send_buffer_most = 4 << 20;
  CHECK(About(JudgeTcp(facts), "net.ipv4.tcp_wmem").level == Level::kWarn);
  CHECK(Contains(About(JudgeTcp(facts), "net.ipv4.tcp_wmem").what, "100 Gbit/s"));
}

TEST_CASE("bbr within a host is a warning only where nothing else may be had") {
  NetworkFacts facts = Sound();
  facts.congestion_control = "bbr";
  CHECK(About(JudgeTcp(facts), "congestion").level == Level::kOk);
  CHECK(About(JudgeTcp(facts), "congestion").what == "bbr; within a host cubic");
  facts.local_congestion_control = "bbr";
  CHECK(About(JudgeTcp(facts), "congestion").level == Level::kWarn);
}

}  // namespace doctor_network_test
}  // namespace rondo
