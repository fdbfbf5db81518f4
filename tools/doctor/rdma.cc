// rondo doctor: judges RDMA ports, device files and limits.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/doctor/findings.h"
#include "transport/ib/ib.h"

namespace rondo {
namespace {

Finding JudgePort(const RdmaPort& port) {
  using State = RdmaPort::State;
  const std::string layer = port.ethernet ? "Ethernet (RoCE)" : "InfiniBand";
  const auto warn = [&](const std::string& what, std::string remedy) {
    return Finding{Level::kWarn, port.name, fmt::format("{}, {}", layer, what), std::move(remedy)};
  };
  switch (port.state) {
    case State::kActive: break;
    case State::kDown:
      if (port.physical_state == "Disabled")
        return warn("down and disabled", port.ethernet ? "ip link set its interface up" : "ibportstate: enable it");
      return warn(fmt::format("down{}", port.physical_state.empty() ? "" : " (" + port.physical_state + ")"),
                  port.ethernet ? "plug the cable in at both ends, and ip link set its interface up"
                                : "plug the cable in at both ends; look at the switch's port");
    case State::kInitializing:
      return warn("INIT: the link is up, but no subnet manager has seen it",
                  "start one on the fabric: opensm on one host, or the switch's own");
    case State::kArmed:
      return warn("ARMED: the subnet manager has not activated it", "look at the subnet manager's log; restart opensm");
    case State::kUnknown: return warn("in an unknown state", "ibv_devinfo -v may say more");
  }
  if (port.gids.empty())
    return warn("active, but without a GID", port.ethernet ? "give its interface an address (ip addr add)"
                                                           : "look at the subnet manager: opensm on one host");
  if (port.ethernet) {
    const auto any = [&](auto is) { return std::any_of(port.gids.begin(), port.gids.end(), is); };
    if (!any([](const RdmaGid& gid) { return gid.type == "RoCE v2"; }))
      return warn("active, but has no GID of RoCE v2: version 1 does not pass routers",
                  "enable RoCE v2 by cma_roce_mode or by the driver's settings");
    if (!any([](const RdmaGid& gid) { return gid.type == "RoCE v2" && !gid.ip.IsLinkLocal(); }))
      return warn("active, but its RoCE v2 GIDs are link-local: they reach only hosts on the same link",
                  "give its interface an IP address (ip addr add)");
    if (port.mtu_bytes > 0 && port.mtu_bytes < port.most_mtu_bytes)
      return warn(fmt::format("active, {}, MTU {} of at most {}", port.rate, port.mtu_bytes, port.most_mtu_bytes),
                  "ip link set its interface mtu 9000 (4200 will do), on all hosts and switches between them");
  }
  std::string what = fmt::format("{}, active, {}", layer, port.rate);
  if (port.mtu_bytes > 0) what += fmt::format(", MTU {} of at most {}", port.mtu_bytes, port.most_mtu_bytes);
  for (const RdmaGid& gid : port.gids)
    if (port.ethernet && gid.type == "RoCE v2" && !gid.ip.IsLinkLocal())
      what += fmt::format(", GID [{}] RoCE v2 {}", gid.index, gid.ip.ToString());
  return {Level::kOk, port.name, what};
}

void JudgeNodes(const RdmaFacts& facts, Level severity, std::vector<Finding>& findings) {
  if (facts.nodes.empty())
    findings.push_back({severity, "/dev/infiniband", "there is no verbs device, so programs cannot use RDMA",
                        "modprobe ib_uverbs; in a container add --device /dev/infiniband"});
  for (const DeviceNode& node : facts.nodes) {
    if (node.usable) continue;
    if (!node.exists)
      findings.push_back({severity, node.path, "does not exist",
                          "in a container add --device /dev/infiniband; otherwise check the rules of udev"});
    else
      findings.push_back({severity, node.path, "this user may not open it",
                          "chmod 666, or a udev rule: KERNEL==\"uverbs*\", MODE=\"0666\" (rdma-core brings one)"});
  }
}

void JudgeMemlock(const RdmaFacts& facts, const PlannedJob& job, Level severity, std::vector<Finding>& findings) {
  const std::uint64_t lane_bytes = 2 * IbOptions{}.ring_bytes;
  const std::string need = fmt::format("{} KiB for each peer of a rank", lane_bytes / 1024);
  const std::string subject = "memlock (ulimit -l)";
  if (!facts.memlock_most || facts.memlock_exempt) {
    findings.push_back({Level::kOk, subject,
                        facts.memlock_exempt && facts.memlock_most
                            ? fmt::format("{} KiB, but CAP_IPC_LOCK removes this limit", *facts.memlock_most / 1024)
                            : "no limit"});
    return;
  }
  // Assumes a large job, with as many hosts as this host has ranks, but at least 8 hosts.
  const std::uint64_t lanes = *facts.memlock_most / lane_bytes;
  const auto wanted = static_cast<std::uint64_t>(std::max(job.local_ranks, 8));
  const std::string what =
      fmt::format("{} KiB; RDMA pins {}, so the limit is enough for {}", *facts.memlock_most / 1024, need,
                  lanes == 0 ? "no peer" : fmt::format("{} peers", lanes));
  if (lanes >= wanted) {
    findings.push_back({Level::kOk, subject, what});
    return;
  }
  findings.push_back({lanes == 0 ? severity : Level::kWarn, subject, what,
                      "'* - memlock unlimited' in a file of /etc/security/limits.d, LimitMEMLOCK=infinity of the "
                      "service (slurmd, sshd), --ulimit memlock=-1 of docker"});
}

}  // namespace

std::vector<Finding> JudgeRdma(const RdmaFacts& facts, const PlannedJob& job) {
  using Path = PlannedJob::Path;
  if (job.path == Path::kTcp || job.path == Path::kShm) return {};
  // If RDMA fails, TCP replaces it, unless the user asked for RDMA.
  const Level severity = job.path == Path::kIb ? Level::kBad : Level::kWarn;
  if (facts.ports.empty()) {
    if (job.path == Path::kAuto) return {{Level::kOk, "RDMA", "no device"}};
    return {{Level::kBad, "RDMA", "no device in /sys/class/infiniband",
             "load the adapter's driver (modprobe mlx5_ib), in a container share the host's network namespace; "
             "soft-RoCE: modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0"}};
  }
  std::vector<Finding> findings;
  for (const RdmaPort& port : facts.ports) findings.push_back(JudgePort(port));
  JudgeNodes(facts, severity, findings);
  if (!facts.verbs_error.empty())
    findings.push_back({severity, "libibverbs", facts.verbs_error,
                        "install rdma-core: apt install libibverbs1 ibverbs-providers, dnf install libibverbs"});
  else if (!facts.chosen_error.empty())
    findings.push_back({severity, "port", facts.chosen_error, "see the ports above"});
  else
    findings.push_back({Level::kOk, "port", facts.chosen});
  JudgeMemlock(facts, job, severity, findings);
  return findings;
}

}  // namespace rondo
