// Tests what rondo doctor reports about memory, limits, cores, the clock and the environment, and the report's format.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/doctor_findings.h"
#include "tools/doctor/findings.h"
#include "tools/doctor/report.h"

namespace rondo {
namespace doctor_host_test {

using Path = PlannedJob::Path;

constexpr std::uint64_t kMiB = 1024 * 1024, kGiB = 1024 * kMiB;
constexpr PlannedJob kJob{.local_ranks = 8, .path = Path::kAuto};
constexpr PlannedJob kShm{.local_ranks = 8, .path = Path::kShm};

MemoryFacts SoundMemory() {
  MemoryFacts facts;
  facts.dev_shm = true;
  facts.dev_shm_type = "tmpfs";
  facts.dev_shm_bytes = facts.dev_shm_free_bytes = 16 * kGiB;
  facts.room = {16 * kGiB, "the machine has 16777216 KiB available"};
  return facts;
}

TEST_CASE("sound memory says what the ranks share") {
  const auto findings = JudgeMemory(SoundMemory(), kJob);
  for (const Finding& finding : findings) CHECK(finding.level == Level::kOk);
  CHECK(findings.front().what ==
        "8 local ranks share 2 MiB for collectives and up to 14 MiB for messages; 16384 MiB are available");
  CHECK(JudgeMemory(SoundMemory(), {.local_ranks = 8, .path = Path::kTcp}).empty());
  CHECK(About(JudgeMemory(SoundMemory(), {.local_ranks = 1}), "shared memory").what == "one local rank needs none");
}

TEST_CASE("memory that is short names who has too little; bad where shared memory is what was asked for") {
  MemoryFacts facts = SoundMemory();
  facts.room = {kMiB, "the machine has 1024 KiB available"};
  CHECK(About(JudgeMemory(facts, kJob), "shared memory").level == Level::kWarn);
  CHECK(About(JudgeMemory(facts, kShm), "shared memory").level == Level::kBad);
  CHECK(Contains(
      About(JudgeMemory(facts, kShm), "shared memory").what,
      "but the machine has 1024 KiB available: 1 MiB can be shared. Connections for which there is no room use TCP"));
  facts.room = {4 * kMiB, "control group /a allows 64 MiB", true};  // enough for collectives
  CHECK(About(JudgeMemory(facts, kShm), "shared memory").level == Level::kWarn);
  CHECK(
      Contains(About(JudgeMemory(facts, kShm), "shared memory").what, "but control group /a allows 64 MiB: 4 MiB can"));
  CHECK(Contains(About(JudgeMemory(facts, kShm), "shared memory").remedy, "docker run --memory"));
  facts = SoundMemory();
  facts.file_bytes_most = 64 * 1024;
  CHECK(Contains(About(JudgeMemory(facts, kShm), "shared memory").remedy, "ulimit -f"));
  facts = SoundMemory();
  facts.memfd_error = "Operation not permitted";
  CHECK(About(JudgeMemory(facts, kShm), "shared memory").level == Level::kBad);
  CheckRemedies(JudgeMemory(facts, kShm));
}

TEST_CASE(
    "without /proc it is said that nothing will be shared, and where only /proc/meminfo is missing, that the room is "
    "unknown") {
  MemoryFacts facts = SoundMemory();
  facts.room = {.why = "how much memory is left is not known: /proc/meminfo cannot be read"};
  Finding finding = About(JudgeMemory(facts, kJob), "shared memory");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "messages; how much memory is left is not known: /proc/meminfo cannot be read"));
  facts.host_error = "this process cannot tell which host it is on: /proc/sys/kernel/random/boot_id: No such file";
  finding = About(JudgeMemory(facts, kJob), "shared memory");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "will not be used: this process cannot tell which host it is on"));
  CHECK(Contains(finding.remedy, "/proc"));
  CHECK(About(JudgeMemory(facts, kShm), "shared memory").level == Level::kBad);
}

TEST_CASE("docker's 64 MiB of /dev/shm are a warning, and that Rondo does not need them is said") {
  MemoryFacts facts = SoundMemory();
  facts.dev_shm_bytes = facts.dev_shm_free_bytes = 64 * kMiB;
  const Finding finding = About(JudgeMemory(facts, kShm), "/dev/shm");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "docker's default; Rondo does not use it"));
  CHECK(Contains(finding.remedy, "--shm-size"));
  CHECK(Contains(finding.remedy, "--ipc=host"));
}

TEST_CASE("/dev/shm full, on a disk, or not there") {
  MemoryFacts facts = SoundMemory();
  facts.dev_shm_free_bytes = 3 * kMiB;
  CHECK(Contains(About(JudgeMemory(facts, kJob), "/dev/shm").remedy, "dead jobs"));
  facts = SoundMemory();
  facts.dev_shm_type = "ext4";
  CHECK(About(JudgeMemory(facts, kJob), "/dev/shm").level == Level::kWarn);
  facts.dev_shm = false;
  CHECK(About(JudgeMemory(facts, kJob), "/dev/shm").level == Level::kWarn);
}

TEST_CASE("memory of peers that may not be read: Yama is named where it is Yama") {
  MemoryFacts facts = SoundMemory();
  facts.read_error = "Operation not permitted";
  CHECK(About(JudgeMemory(facts, kShm), "peers' memory").level == Level::kWarn);
  CHECK(!Contains(About(JudgeMemory(facts, kShm), "peers' memory").remedy, "sysctl"));
  facts.ptrace_scope = 1;
  CHECK(Contains(About(JudgeMemory(facts, kShm), "peers' memory").what, "ptrace_scope is 1"));
  CHECK(Contains(About(JudgeMemory(facts, kShm), "peers' memory").remedy, "kernel.yama.ptrace_scope=0"));
  facts.read_error.clear();  // root may read it
  CHECK(About(JudgeMemory(facts, kShm), "peers' memory").level == Level::kOk);
}

TEST_CASE("too few open files are bad, and by the hard limit it is said who may raise them") {
  CHECK(About(JudgeLimits({}, kJob), "open files").what == "no limit");
  LimitFacts facts{.files = 64, .files_hard = 4096};
  Finding finding = About(JudgeLimits(facts, kJob), "open files");
  CHECK(finding.level == Level::kBad);
  CHECK(finding.what == "64; each of 8 ranks may need 88");
  CHECK(finding.remedy == "ulimit -n 4096");
  facts.files_hard = 64;
  CHECK(Contains(About(JudgeLimits(facts, kJob), "open files").remedy, "LimitNOFILE="));
  facts.files = facts.files_hard = 1024;
  CHECK(About(JudgeLimits(facts, kJob), "open files").what == "1024, enough for 124 peers of a rank");
}

TEST_CASE("too few processes of the user or tasks of the control group are bad") {
  const LimitFacts facts{.processes = 10, .group_tasks_left = 31};
  const auto findings = JudgeLimits(facts, kJob);
  CheckRemedies(findings);
  CHECK(About(findings, "processes").level == Level::kBad);
  CHECK(About(findings, "tasks").level == Level::kBad);
  CHECK(About(JudgeLimits({.processes = 32, .group_tasks_left = 32}, kJob), "tasks").subject.empty());
}

CpuFacts SoundCpus() {
  CpuFacts facts;
  facts.online = facts.usable = 8;
  facts.clock_source = "tsc";
  facts.clock_ns = 20;
  facts.clock_synced = true;
  return facts;
}

TEST_CASE("a rank per core is well; more take turns, and a narrow affinity is named") {
  for (const Finding& finding : JudgeCpus(SoundCpus(), kJob)) CHECK(finding.level == Level::kOk);
  CpuFacts facts = SoundCpus();
  facts.usable = 1;
  Finding finding = About(JudgeCpus(facts, kJob), "cores");
  CHECK(finding.level == Level::kWarn);
  CHECK(Contains(finding.what, "1 of 8 may be used, for 8 ranks"));
  CHECK(Contains(finding.remedy, "taskset"));
  facts.online = facts.usable = 2;
  finding = About(JudgeCpus(facts, kJob), "cores");
  CHECK(finding.level == Level::kWarn);
  CHECK(!Contains(finding.remedy, "taskset"));
}

TEST_CASE("a quota below the ranks' cores, a saving governor, a slow clock, a wrong time") {
  CpuFacts facts = SoundCpus();
  facts.quota = 2.5;
  facts.powersaving = 8;
  facts.clock_source = "hpet";
  facts.clock_ns = 900;
  facts.clock_synced = false;
  const auto findings = JudgeCpus(facts, kJob);
  CheckRemedies(findings);
  CHECK(Contains(About(findings, "CPU quota").what, "the time of 2.5 cores"));
  CHECK(Contains(About(findings, "frequency").remedy, "performance"));
  CHECK(Contains(About(findings, "clock").what, "hpet: each reading of the clock is a system call (900 ns)"));
  CHECK(About(findings, "time").level == Level::kWarn);
  CHECK(About(JudgeCpus(facts, {.local_ranks = 2}), "CPU quota").subject.empty());
}

NetworkFacts TwoInterfaces() {
  NetworkFacts facts;
  facts.addresses = {At("lo", "127.0.0.1"), At("eth0", "10.0.0.1"), At("ib0", "10.1.0.1")};
  return facts;
}

Finding OfVariable(const std::string& name, const std::string& value) {
  EnvironmentFacts facts;
  facts.variables = {{name, value}};
  const auto findings = JudgeEnvironment(facts, TwoInterfaces());
  CheckRemedies(findings);
  return About(findings, name);
}

TEST_CASE("interface names for Gloo must exist exactly, for NCCL begin some name") {
  CHECK(JudgeEnvironment({}, TwoInterfaces()).empty());
  CHECK(OfVariable("GLOO_SOCKET_IFNAME", "eth0,ib0").level == Level::kOk);
  CHECK(Contains(OfVariable("GLOO_SOCKET_IFNAME", "eth0,eth9").what, "'eth9'"));
  CHECK(OfVariable("GLOO_SOCKET_IFNAME", "eth").level == Level::kWarn);
  CHECK(OfVariable("GLOO_SOCKET_IFNAME", "^lo").level == Level::kWarn);
  CHECK(OfVariable("NCCL_SOCKET_IFNAME", "eth").level == Level::kOk);
  CHECK(OfVariable("NCCL_SOCKET_IFNAME", "^lo,docker").level == Level::kOk);
  CHECK(OfVariable("NCCL_SOCKET_IFNAME", "=eth").level == Level::kWarn);
  CHECK(OfVariable("NCCL_SOCKET_IFNAME", "lo").level == Level::kWarn);
}

TEST_CASE("Rondo's own variables are listed, secrets without their value, and unknown ones are a warning") {
  CHECK(OfVariable("RONDO_TIMEOUT", "30").what ==
        "30: seconds for the rendezvous, and for each operation (default 60)");
  CHECK(OfVariable("RONDO_TOKEN", "hush").level == Level::kOk);
  CHECK(!Contains(OfVariable("RONDO_TOKEN", "hush").what, "hush"));
  CHECK(!Contains(OfVariable("RONDO_TLS_PSK", "hush").what, "hush"));
  CHECK(OfVariable("RONDO_TIMEOT", "30").level == Level::kWarn);
}

TEST_CASE("MASTER_ADDR on loopback is bad as soon as ranks are elsewhere") {
  EnvironmentFacts facts;
  facts.variables = {{"MASTER_ADDR", "node1"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "8"}};
  facts.master = NameFacts{.name = "node1", .addresses = {Ip("127.0.1.1")}, .error = ""};
  CHECK(About(JudgeEnvironment(facts, {}), "MASTER_ADDR").level == Level::kOk);
  facts.variables["LOCAL_WORLD_SIZE"] = "4";
  const Finding finding = About(JudgeEnvironment(facts, {}), "MASTER_ADDR");
  CHECK(finding.level == Level::kBad);
  CHECK(Contains(finding.what, "node1 (127.0.1.1) is loopback, but 4 of 8 ranks are on other hosts"));
  facts.master->addresses.push_back(Ip("10.0.0.1"));
  CHECK(About(JudgeEnvironment(facts, {}), "MASTER_ADDR").level == Level::kOk);
  facts.master = NameFacts{.name = "node1", .addresses = {}, .error = "Name or service not known"};
  CHECK(About(JudgeEnvironment(facts, {}), "MASTER_ADDR").level == Level::kBad);
}

TEST_CASE("the report has a line per finding, its remedy below, and counts at the end") {
  const std::vector<Section> sections{{"one", {{Level::kOk, "a", "is well"}, {Level::kWarn, "b", "limps", "rest"}}},
                                      {"two", {{Level::kOk, "c", "is well"}}},
                                      {"three", {{Level::kBad, "d", "is broken", "mend it"}}}};
  CHECK(ReportText(sections, /*quiet=*/false) ==
        "one\n  ok    a: is well\n  warn  b: limps\n        -> rest\ntwo\n  ok    c: is well\nthree\n  bad   d: is "
        "broken\n        -> mend it\n1 bad, 1 warning\n");
  CHECK(ReportText(sections, /*quiet=*/true) ==
        "one\n  warn  b: limps\n        -> rest\nthree\n  bad   d: is broken\n        -> mend it\n1 bad, 1 warning\n");
}

TEST_CASE("the report as JSON, whatever bytes a variable has") {
  const std::vector<Section> sections{{"one", {{Level::kBad, "a", "\xff\"", "mend it"}}}};
  const auto json = nlohmann::json::parse(ReportJson(sections, "node1", kShm, "shm"));
  CHECK(json["bad"] == 1);
  CHECK(json["warnings"] == 0);
  CHECK(json["ranks"] == 8);
  CHECK(json["transport"] == "shm");
  REQUIRE(json["findings"].size() == 1);
  CHECK(json["findings"][0]["section"] == "one");
  CHECK(json["findings"][0]["level"] == "bad");
  CHECK(json["findings"][0]["remedy"] == "mend it");
}

}  // namespace doctor_host_test
}  // namespace rondo
