// Tests what rondo doctor reports about RDMA ports, device files, the limit of locked memory, and GPUs.
#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "tests/cli/doctor_findings.h"
#include "tools/doctor/findings.h"

namespace rondo {
namespace doctor_rdma_test {

using State = RdmaPort::State;

constexpr PlannedJob kAuto{.local_ranks = 4, .path = PlannedJob::Path::kAuto};
constexpr PlannedJob kIb{.local_ranks = 4, .path = PlannedJob::Path::kIb};

RdmaPort Roce() {
  return {.name = "mlx5_0:1",
          .state = State::kActive,
          .physical_state = "LinkUp",
          .rate = "100 Gb/sec (4X EDR)",
          .ethernet = true,
          .gids = {{.type = "RoCE v2", .ip = Ip("fe80::1")}, {.index = 3, .type = "RoCE v2", .ip = Ip("10.0.0.1")}},
          .mtu_bytes = 4096,
          .most_mtu_bytes = 4096};
}

RdmaFacts Sound() {
  RdmaFacts facts;
  facts.ports = {Roce()};
  facts.nodes = {{.path = "/dev/infiniband/uverbs0", .exists = true, .usable = true}};
  facts.chosen = "Rondo uses mlx5_0:1 RoCE v2 10.0.0.1 (eth0) (the only port)";
  return facts;
}

Finding OfPort(const RdmaPort& port) {
  RdmaFacts facts = Sound();
  facts.ports = {port};
  const auto findings = JudgeRdma(facts, kAuto);
  CheckRemedies(findings);
  return findings.front();
}

TEST_CASE("no device is well, unless RDMA is what the job must have") {
  CHECK(About(JudgeRdma({}, kAuto), "RDMA").level == Level::kOk);
  CHECK(About(JudgeRdma({}, kIb), "RDMA").level == Level::kBad);
  CheckRemedies(JudgeRdma({}, kIb));
  CHECK(JudgeRdma({}, {.local_ranks = 4, .path = PlannedJob::Path::kTcp}).empty());
}

TEST_CASE("a sound port says what it is and which one Rondo takes") {
  const auto findings = JudgeRdma(Sound(), kIb);
  for (const Finding& finding : findings) CHECK(finding.level == Level::kOk);
  CHECK(findings.front().what ==
        "Ethernet (RoCE), active, 100 Gb/sec (4X EDR), MTU 4096 of at most 4096, GID [3] RoCE v2 10.0.0.1");
  CHECK(Contains(About(findings, "port").what, "Rondo uses mlx5_0:1"));
}

TEST_CASE("each state of a port has its remedy") {
  RdmaPort port = Roce();
  port.ethernet = false;
  port.state = State::kDown;
  port.physical_state = "Polling";
  CHECK(OfPort(port).level == Level::kWarn);
  CHECK(Contains(OfPort(port).what, "down (Polling)"));
  CHECK(Contains(OfPort(port).remedy, "cable"));
  port.physical_state = "Disabled";
  CHECK(Contains(OfPort(port).what, "disabled"));
  port.state = State::kInitializing;
  CHECK(Contains(OfPort(port).remedy, "opensm"));
  port.state = State::kArmed;
  CHECK(Contains(OfPort(port).remedy, "opensm"));
  port.state = State::kUnknown;
  CHECK(OfPort(port).level == Level::kWarn);
}

TEST_CASE("a RoCE port needs a GID of version 2 with an address that goes beyond its link") {
  RdmaPort port = Roce();
  port.gids.pop_back();
  CHECK(Contains(OfPort(port).what, "link-local"));
  port.gids = {{.type = "IB/RoCE v1", .ip = Ip("10.0.0.1")}};
  CHECK(Contains(OfPort(port).what, "no GID of RoCE v2"));
  port.gids.clear();
  CHECK(Contains(OfPort(port).what, "without a GID"));
  CHECK(Contains(OfPort(port).remedy, "ip addr"));
}

TEST_CASE("an MTU below what a RoCE port can is a warning; of InfiniBand the subnet manager's business") {
  RdmaPort port = Roce();
  port.mtu_bytes = 1024;
  CHECK(OfPort(port).level == Level::kWarn);
  CHECK(Contains(OfPort(port).what, "MTU 1024 of at most 4096"));
  port.ethernet = false;
  CHECK(OfPort(port).level == Level::kOk);
}

TEST_CASE("device files that are missing or closed are bad where RDMA must be, else a warning") {
  RdmaFacts facts = Sound();
  facts.nodes.front().usable = false;
  CHECK(About(JudgeRdma(facts, kAuto), "/dev/infiniband/uverbs0").level == Level::kWarn);
  CHECK(About(JudgeRdma(facts, kIb), "/dev/infiniband/uverbs0").level == Level::kBad);
  CHECK(Contains(About(JudgeRdma(facts, kIb), "/dev/infiniband/uverbs0").what, "may not open"));
  facts.nodes.front().exists = false;
  CHECK(Contains(About(JudgeRdma(facts, kIb), "/dev/infiniband/uverbs0").what, "does not exist"));
  facts.nodes.clear();
  CHECK(Contains(About(JudgeRdma(facts, kIb), "/dev/infiniband").remedy, "ib_uverbs"));
}

TEST_CASE("libibverbs that does not load, and no port that could be taken") {
  RdmaFacts facts = Sound();
  facts.chosen.clear();
  facts.chosen_error = "no RDMA port is active";
  CHECK(About(JudgeRdma(facts, kIb), "port").level == Level::kBad);
  CHECK(About(JudgeRdma(facts, kAuto), "port").level == Level::kWarn);
  facts.verbs_error = "no RDMA: libibverbs cannot be loaded";
  CHECK(About(JudgeRdma(facts, kIb), "libibverbs").level == Level::kBad);
  CHECK(About(JudgeRdma(facts, kIb), "port").subject.empty());
}

TEST_CASE("the memory lock is counted in ranks that a rank can talk to") {
  RdmaFacts facts = Sound();
  CHECK(About(JudgeRdma(facts, kIb), "memlock").what == "no limit");
  facts.memlock_most = 64 * 1024;
  Finding finding = About(JudgeRdma(facts, kIb), "memlock");
  CHECK(finding.level == Level::kBad);
  CHECK(finding.what == "64 KiB; RDMA pins 2048 KiB for each peer of a rank, so the limit is enough for no peer");
  CHECK(Contains(finding.remedy, "LimitMEMLOCK=infinity"));
  CHECK(About(JudgeRdma(facts, kAuto), "memlock").level == Level::kWarn);
  facts.memlock_most = 8 << 20;  // the default of systemd
  finding = About(JudgeRdma(facts, kIb), "memlock");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "enough for 4 peers"));
  facts.memlock_most = 1 << 30;
  CHECK(About(JudgeRdma(facts, kIb), "memlock").level == Level::kOk);
  facts.memlock_most = 64 * 1024;
  facts.memlock_exempt = true;
  CHECK(About(JudgeRdma(facts, kIb), "memlock").level == Level::kOk);
}

}  // namespace doctor_rdma_test
}  // namespace rondo
