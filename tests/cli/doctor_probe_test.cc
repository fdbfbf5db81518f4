// Tests what rondo doctor reads from /proc, /sys and /dev: each case writes the files of some machine.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/net/fd.h"
#include "tests/cli/doctor_findings.h"
#include "tests/support/file_tree.h"
#include "tools/doctor/files.h"
#include "tools/doctor/probe.h"
#include "transport/tcp/socket.h"

namespace rondo {
namespace doctor_probe_test {

class Tree : public testing::FileTree {
 public:
  HostFiles files() const { return HostFiles(root()); }
};

TEST_CASE("files that are missing, empty or no numbers say nothing") {
  Tree tree;
  tree.File("/a", "17 18").File("/b", "max").File("/c", "-1").File("/d");
  const HostFiles files = tree.files();
  CHECK(files.Number("/a") == 17);
  CHECK(!files.Number("/b"));
  CHECK(!files.Number("/c"));
  CHECK(!files.Number("/d"));
  CHECK(!files.Number("/nothing"));
  CHECK(!files.Text("/nothing"));
  CHECK(files.Line("/nothing").empty());
  CHECK(files.List("/nothing").empty());
  CHECK(files.List("/") == std::vector<std::string>{"a", "b", "c", "d"});
}

TEST_CASE("a file that opens and then gives an error says nothing") {
  CHECK(!HostFiles().Text("/"));  // a folder: reading fails with EISDIR, as /sys/class/net/lo/speed fails with EINVAL
}

TEST_CASE("RDMA ports as the kernel lists them, without the empty entries of their GID tables") {
  Tree tree;
  const std::string port = "/sys/class/infiniband/mlx5_0/ports/1";
  tree.File(port + "/state", "4: ACTIVE")
      .File(port + "/phys_state", "5: LinkUp")
      .File(port + "/rate", "100 Gb/sec (4X EDR)")
      .File(port + "/link_layer", "Ethernet")
      .File(port + "/gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001")
      .File(port + "/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001")
      .File(port + "/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000")
      .File(port + "/gid_attrs/types/0", "IB/RoCE v1")
      .File(port + "/gid_attrs/types/1", "RoCE v2")
      .File("/sys/class/infiniband/mlx5_1/ports/1/state", "2: INIT")
      .File("/sys/class/infiniband/mlx5_1/ports/1/link_layer", "InfiniBand")
      .File("/sys/class/infiniband_verbs/abi_version", "6")
      .File("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0")
      .File("/sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1")
      .File("/dev/infiniband/uverbs0")
      .File("/proc/self/status", "Name:\trondo\nCapPrm:\t0000000000000000\nCapEff:\t0000000000004000");
  RdmaFacts facts;
  ReadRdma(tree.files(), facts);
  REQUIRE(facts.ports.size() == 2);
  CHECK(facts.ports[0].name == "mlx5_0:1");
  CHECK(facts.ports[0].state == RdmaPort::State::kActive);
  CHECK(facts.ports[0].physical_state == "LinkUp");
  CHECK(facts.ports[0].rate == "100 Gb/sec (4X EDR)");
  CHECK(facts.ports[0].ethernet);
  REQUIRE(facts.ports[0].gids.size() == 2);
  CHECK(facts.ports[0].gids[1].index == 1);
  CHECK(facts.ports[0].gids[1].type == "RoCE v2");
  CHECK(facts.ports[0].gids[1].ip.ToString() == "10.0.0.1");
  CHECK(facts.ports[1].state == RdmaPort::State::kInitializing);
  CHECK(!facts.ports[1].ethernet);
  REQUIRE(facts.nodes.size() == 2);
  CHECK(facts.nodes[0].usable);
  CHECK(!facts.nodes[1].exists);
  CHECK(facts.memlock_exempt);
}

TEST_CASE("a machine without RDMA and GPUs") {
  const Tree tree;
  RdmaFacts rdma;
  ReadRdma(tree.files(), rdma);
  CHECK(rdma.ports.empty());
  CHECK(rdma.nodes.empty());
  CHECK(!rdma.memlock_exempt);
  GpuFacts gpu;
  ReadGpu(tree.files(), gpu);
  CHECK(gpu.nvidia_gpus == 0);
}

TEST_CASE("GPUs are counted, their control files are not") {
  Tree tree;
  tree.File("/dev/nvidia0").File("/dev/nvidia1").File("/dev/nvidiactl").File("/dev/nvidia-uvm");
  tree.File("/sys/module/nvidia_peermem/refcnt", "0");
  tree.File("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54");
  GpuFacts facts;
  ReadGpu(tree.files(), facts);
  CHECK(facts.nvidia_gpus == 2);
  CHECK(facts.reach.peer_memory == "nvidia_peermem");
  CHECK(facts.open_driver);
}

TEST_CASE("without the driver's module GPUs are counted on the bus; with it, only what a container was given") {
  Tree tree;
  const std::string bus = "/sys/bus/pci/devices/";
  tree.File(bus + "0000:10:00.0/vendor", "0x10de").File(bus + "0000:10:00.0/class", "0x030200");
  // The sound device of a GPU, and a GPU of another vendor.
  tree.File(bus + "0000:10:00.1/vendor", "0x10de").File(bus + "0000:10:00.1/class", "0x040300");
  tree.File(bus + "0000:20:00.0/vendor", "0x1a03").File(bus + "0000:20:00.0/class", "0x030000");
  GpuFacts facts;
  ReadGpu(tree.files(), facts);
  CHECK(facts.nvidia_gpus == 1);
  tree.File("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54");
  GpuFacts in_container;
  ReadGpu(tree.files(), in_container);
  CHECK(in_container.nvidia_gpus == 0);
}

TEST_CASE("control groups of version 2: the tightest of those around the process holds") {
  Tree tree;
  const std::string groups = "/sys/fs/cgroup";
  tree.File(groups + "/cgroup.controllers", "cpu memory pids")
      .File("/proc/self/cgroup", "0::/job.slice/step.scope")
      .File(groups + "/job.slice/memory.max", "100000000")
      .File(groups + "/job.slice/memory.current", "40000000")
      .File(groups + "/job.slice/cpu.max", "150000 100000")
      .File(groups + "/job.slice/pids.max", "max")
      .File(groups + "/job.slice/step.scope/memory.max", "max")
      .File(groups + "/job.slice/step.scope/memory.current", "300000")
      .File(groups + "/job.slice/step.scope/cpu.max", "max 100000")
      .File(groups + "/job.slice/step.scope/pids.max", "50")
      .File(groups + "/job.slice/step.scope/pids.current", "20");
  MemoryFacts memory;
  ReadMemory(tree.files(), memory);
  // Half of the control group's limit is reserved for the processes' own memory.
  CHECK(memory.room.bytes == 10000000);
  CHECK(memory.room.is_of_a_group);
  LimitFacts limits;
  ReadLimits(tree.files(), limits);
  CHECK(limits.group_tasks_left == 30);
  CpuFacts cpus;
  ReadCpus(tree.files(), cpus);
  CHECK(cpus.quota == doctest::Approx(1.5));
}

TEST_CASE("control groups of version 1, seen from a container that does not see its own path") {
  Tree tree;
  tree.File("/proc/self/cgroup", "4:memory:/docker/6f\n3:cpu,cpuacct:/docker/6f\n2:pids:/docker/6f\n0::/docker/6f");
  tree.File("/sys/fs/cgroup/memory/memory.limit_in_bytes", "5000")
      .File("/sys/fs/cgroup/memory/memory.usage_in_bytes", "6000");
  tree.File("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000")
      .File("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  tree.File("/sys/fs/cgroup/pids/pids.max", "max").File("/sys/fs/cgroup/pids/pids.current", "3");
  MemoryFacts memory;
  ReadMemory(tree.files(), memory);
  CHECK(memory.room.bytes == 0);
  CHECK(memory.room.is_of_a_group);
  CpuFacts cpus;
  ReadCpus(tree.files(), cpus);
  CHECK(cpus.quota == doctest::Approx(0.5));
  LimitFacts limits;
  ReadLimits(tree.files(), limits);
  CHECK(!limits.group_tasks_left);
}

TEST_CASE("where /proc or /sys is not mounted, that is a finding, for then nothing of it can be read") {
  Tree tree;
  EnvironmentFacts facts;
  ReadMounts(tree.files(), facts);
  CHECK(facts.missing == std::vector<std::string>{"/proc", "/sys"});
  const auto findings = JudgeEnvironment(facts, {});
  CHECK(About(findings, "/proc").level == Level::kWarn);
  CHECK(About(findings, "/sys").remedy == "mount -t sysfs sysfs /sys");
  tree.File("/proc/self/cgroup").File("/sys/class/net/lo/mtu", "65536");
  EnvironmentFacts mounted;
  ReadMounts(tree.files(), mounted);
  CHECK(mounted.missing.empty());
}

TEST_CASE("memory: what is available, what lies under /dev/shm, what Yama says") {
  Tree tree;
  tree.File("/dev/shm/x")
      .File("/proc/self/mounts", "overlay / overlay rw 0 0\ntmpfs /dev/shm tmpfs rw,size=65536k 0 0")
      .File("/proc/meminfo", "MemTotal:  65536 kB\nMemAvailable:  32768 kB")
      .File("/proc/sys/kernel/yama/ptrace_scope", "1");
  MemoryFacts facts;
  ReadMemory(tree.files(), facts);
  CHECK(facts.dev_shm);
  CHECK(facts.dev_shm_type == "tmpfs");
  CHECK(facts.room.bytes == 32 * 1024 * 1024);
  CHECK(!facts.room.is_of_a_group);
  CHECK(facts.ptrace_scope == 1);
}

TEST_CASE("cores, their governors, and the clock") {
  Tree tree;
  const std::string cpus = "/sys/devices/system/cpu/";
  tree.File(cpus + "online", "0-3")
      .File(cpus + "cpu0/cpufreq/scaling_governor", "powersave")
      .File(cpus + "cpu1/cpufreq/scaling_governor", "performance")
      .File("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet");
  CpuFacts facts;
  ReadCpus(tree.files(), facts);
  CHECK(facts.online == 4);
  CHECK(facts.powersaving == 1);
  CHECK(facts.clock_source == "hpet");
  CHECK(facts.quota == 0);
}

TEST_CASE("interfaces and the settings of TCP") {
  Tree tree;
  tree.File("/sys/class/net/eth0/mtu", "9000")
      .File("/sys/class/net/eth0/speed", "100000")
      .File("/sys/class/net/veth0/mtu", "1500")
      .File("/sys/class/net/veth0/speed", "-1")
      .File("/proc/sys/net/core/somaxconn", "128")
      .File("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304")
      .File("/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999");
  NetworkFacts facts;
  for (const char* const name : {"eth0", "veth0"}) {
    tcp::LocalAddress address;
    address.interface = name;
    facts.addresses.push_back(address);
  }
  ReadNetwork(tree.files(), facts);
  CHECK(facts.interfaces["eth0"].mtu_bytes == 9000);
  CHECK(facts.interfaces["eth0"].speed_mbps == 100000);
  CHECK(facts.interfaces["veth0"].speed_mbps == 0);
  CHECK(facts.listen_backlog_most == 128);
  CHECK(facts.send_buffer_most == 4194304);
  CHECK(!facts.receive_buffer_most);
  CHECK(facts.port_range == "32768 to 60999");
}

TEST_CASE("of nft's chains those that drop what comes in") {
  CHECK(DroppingChains("").empty());
  CHECK(DroppingChains("table inet filter {\n"
                       "\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t}\n"
                       "\tchain forward {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n"
                       "}\ntable ip filter {\n"
                       "\tchain INPUT {\n\t\ttype filter hook input priority filter; policy accept;\n\t}\n}\n") ==
        std::vector<std::string>{"nft inet filter input"});
}

TEST_CASE("of nft's chains those that end with a rule that rejects or drops everything") {
  const auto of = [](const char* last) {
    return DroppingChains(std::string("table inet firewalld {\n\tchain filter_INPUT {\n"
                                      "\t\ttype filter hook input priority filter + 10; policy accept;\n"
                                      "\t\tct state { established, related } accept\n"
                                      "\t\tct state invalid drop\n\t\tjump filter_INPUT_ZONES\n\t\t") +
                          last + "\n\t}\n\tchain filter_INPUT_ZONES {\n\t\tdrop\n\t}\n}\n");
  };
  const std::vector<std::string> firewalld{"nft inet firewalld filter_INPUT"};
  for (const char* last :
       {"reject with icmpx admin-prohibited", "drop", "counter drop", "counter packets 3 bytes 180 reject"})
    CHECK_MESSAGE(of(last) == firewalld, last);
  for (const char* last : {"accept", "tcp dport 22 drop", "iifname \"eth1\" counter reject"})
    CHECK_MESSAGE(of(last).empty(), last);
}

TEST_CASE("of iptables' rules those that drop or reject what is left") {
  CHECK(DropsTheRest("-P INPUT DROP\n"));
  CHECK(DropsTheRest(
      "-P INPUT ACCEPT\n-A INPUT -i lo -j ACCEPT\n-A INPUT -j REJECT --reject-with icmp-host-prohibited\n"));
  CHECK(!DropsTheRest("-P INPUT ACCEPT\n-A INPUT -p tcp --dport 22 -j DROP\n"));
  CHECK(!DropsTheRest(""));
}

TEST_CASE("the interface of a route") {
  CHECK(InterfaceOfRoute("10.0.0.9 from 10.0.0.2 dev eth0 uid 0 \\    cache \n") == "eth0");
  CHECK(InterfaceOfRoute("10.9.0.9 from 10.0.0.2 via 10.0.0.254 dev ib1 uid 0 \n") == "ib1");
  CHECK(InterfaceOfRoute("").empty());
}

TEST_CASE("connections on loopback: one that is taken, one that is refused") {
  const SteadyClock clock;
  NetworkFacts facts;
  tcp::LocalAddress loopback;
  loopback.interface = "lo";
  loopback.ip = *IpAddress::Parse("127.0.0.1");
  facts.addresses = {loopback};
  const auto listener = tcp::Listen({.ip = loopback.ip, .port = 0}, 4, /*dual_stack=*/false, {});
  REQUIRE(listener);
  // A socket is bound to this port, so that no other process gets it, but the socket does not listen.
  const auto taken = ToRaw({.ip = loopback.ip, .port = 0});
  const Fd bound(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(bind(bound.get(), taken.get(), taken.bytes) == 0);
  const std::string open = LocalSocketAddress(listener->get()).ToString();
  const std::string shut = LocalSocketAddress(bound.get()).ToString();
  AskNetwork({.peers = {open, shut, "[::1]:1"}}, clock, facts);
  REQUIRE(facts.self.size() == 1);
  CHECK(facts.self[0].outcome == Attempt::Outcome::kReached);
  REQUIRE(facts.peers.size() == 3);
  REQUIRE(facts.peers[0].attempts.size() == 1);
  CHECK(facts.peers[0].attempts[0].outcome == Attempt::Outcome::kReached);
  REQUIRE(facts.peers[1].attempts.size() == 1);
  CHECK(facts.peers[1].attempts[0].outcome == Attempt::Outcome::kRefused);
  CHECK(facts.peers[2].attempts.empty());  // [::1] is not tried: the only local address is IPv4
  CHECK(!facts.congestion_control.empty());
}

}  // namespace doctor_probe_test
}  // namespace rondo
