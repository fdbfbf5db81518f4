// rondo doctor: judges memory, limits, cores and clock of the host.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/doctor/findings.h"
#include "transport/shared_segment.h"
#include "transport/shm/segment.h"
#include "transport/shm/shared_segment.h"
#include "transport/shm/shm.h"

namespace rondo {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;

// The file descriptors of a rank: kFilesOfRank for the program itself, and kFilesPerPeer for each peer. Those for a
// peer are a control connection, lanes over TCP and shared memory, and descriptors that rank 0 keeps open for the
// shared segment. A measurement: in a job of 8 ranks of `rondo perf`, which share memory and all exchange data, each
// rank has 50 descriptors.
constexpr std::uint64_t kFilesOfRank = 32, kFilesPerPeer = 8;
// Tasks (threads) of a rank: the program's main thread, Rondo's control thread, and two more threads of the program.
constexpr std::uint64_t kTasksOfRank = 4;

std::string MiB(std::uint64_t bytes) { return fmt::format("{:.0f} MiB", static_cast<double>(bytes) / kMiB); }

struct SharedNeed {
  std::uint64_t segment_bytes = 0;  // shared memory that is always needed
  std::uint64_t lane_bytes = 0;     // shared memory for the lanes between all pairs of ranks
};

SharedNeed NeedOf(int ranks) {
  const auto n = static_cast<std::uint64_t>(ranks);
  return {.segment_bytes = ranks > kMaxSharedSegmentRanks ? 0 : shm::SharedSegmentBytes(ranks),
          .lane_bytes = n * (n - 1) / 2 * (shm::kSegmentHeadBytes + 2 * ShmOptions{}.ring_bytes)};
}

Finding JudgeDevShm(const MemoryFacts& facts) {
  const std::string ours = "Rondo does not use it, but NCCL, Gloo, MPI and PyTorch's data loaders do";
  const std::string remedy =
      "docker run --shm-size=8g or --ipc=host; Kubernetes: an emptyDir of medium Memory at /dev/shm; otherwise mount "
      "-o remount,size=50% /dev/shm";
  if (!facts.dev_shm) return {Level::kWarn, "/dev/shm", "does not exist; " + ours, "mount -t tmpfs tmpfs /dev/shm"};
  const std::string size = fmt::format("{}, {} of {} free", facts.dev_shm_type.empty() ? "?" : facts.dev_shm_type,
                                       MiB(facts.dev_shm_free_bytes), MiB(facts.dev_shm_bytes));
  if (!facts.dev_shm_type.empty() && facts.dev_shm_type != "tmpfs")
    return {Level::kWarn, "/dev/shm", size + ": it is on a disk, not in memory; " + ours,
            "mount -t tmpfs tmpfs /dev/shm"};
  if (facts.dev_shm_bytes <= 64 * kMiB)
    return {Level::kWarn, "/dev/shm", size + ", which is docker's default; " + ours, remedy};
  if (facts.dev_shm_free_bytes < 64 * kMiB)
    return {Level::kWarn, "/dev/shm", size + "; " + ours, "remove files that dead jobs left there, or " + remedy};
  return {Level::kOk, "/dev/shm", size};
}

}  // namespace

std::vector<Finding> JudgeMemory(const MemoryFacts& facts, const PlannedJob& job) {
  if (job.path == PlannedJob::Path::kTcp) return {};
  // If shared memory fails, TCP replaces it, unless the user asked for shared memory.
  const Level severity = job.path == PlannedJob::Path::kShm ? Level::kBad : Level::kWarn;
  std::vector<Finding> findings;
  const SharedNeed need = NeedOf(job.local_ranks);
  const std::uint64_t all = need.segment_bytes + need.lane_bytes;
  const std::string needs = fmt::format("{} local ranks share {} for collectives and up to {} for messages",
                                        job.local_ranks, MiB(need.segment_bytes), MiB(need.lane_bytes));
  const std::string subject = "shared memory";
  const shm::Room& room = facts.room;
  const std::uint64_t largest = std::max(need.segment_bytes, shm::kSegmentHeadBytes + 2 * ShmOptions{}.ring_bytes);
  if (job.local_ranks == 1)
    findings.push_back({Level::kOk, subject, "one local rank needs none"});
  else if (!facts.host_error.empty())
    findings.push_back(
        {severity, subject, fmt::format("will not be used: {}", facts.host_error), "mount -t proc proc /proc"});
  else if (!facts.memfd_error.empty())
    findings.push_back({severity, subject, fmt::format("cannot be made: {}", facts.memfd_error),
                        "allow memfd_create with sealing (the container's seccomp filter)"});
  else if (facts.file_bytes_most && *facts.file_bytes_most < largest)
    findings.push_back(
        {severity, subject,
         fmt::format("{}, but a file of this user may have at most {} bytes", needs, *facts.file_bytes_most),
         "ulimit -f unlimited"});
  else if (room.bytes < all)
    findings.push_back({room.bytes < need.segment_bytes ? severity : Level::kWarn, subject,
                        fmt::format("{}, but {}: {} can be shared. Connections for which there is no room use TCP",
                                    needs, room.why, MiB(room.bytes)),
                        room.is_of_a_group ? "docker run --memory, MemoryMax= of the service, --mem of srun"
                                           : "end processes that use the memory"});
  else if (room.bytes == shm::Room::kUnknown)
    findings.push_back({Level::kWarn, subject, fmt::format("{}; {}", needs, room.why), "mount -t proc proc /proc"});
  else
    findings.push_back({Level::kOk, subject, fmt::format("{}; {} are available", needs, MiB(room.bytes))});
  if (job.local_ranks > 1) {
    if (facts.read_error.empty())
      findings.push_back({Level::kOk, "peers' memory", "ranks can read it directly (process_vm_readv)"});
    else
      findings.push_back(
          {Level::kWarn, "peers' memory",
           fmt::format("ranks cannot read it ({}{}): large vectors are copied through slots of shared memory, at half "
                       "the speed",
                       facts.read_error,
                       facts.ptrace_scope.value_or(0) > 0
                           ? fmt::format("; kernel.yama.ptrace_scope is {}", *facts.ptrace_scope)
                           : ""),
           facts.ptrace_scope.value_or(0) > 0
               ? "sysctl -w kernel.yama.ptrace_scope=0, or use buffers from Communicator::Allocate"
               : "allow process_vm_readv (docker: --cap-add SYS_PTRACE), or use buffers from Communicator::Allocate"});
  }
  findings.push_back(JudgeDevShm(facts));
  return findings;
}

std::vector<Finding> JudgeLimits(const LimitFacts& facts, const PlannedJob& job) {
  std::vector<Finding> findings;
  const auto ranks = static_cast<std::uint64_t>(job.local_ranks);
  const std::uint64_t files = kFilesOfRank + (ranks - 1) * kFilesPerPeer;
  const std::string open_files = "open files (ulimit -n)";
  if (!facts.files) {
    findings.push_back({Level::kOk, open_files, "no limit"});
  } else if (*facts.files < files) {
    const bool may_raise = !facts.files_hard || *facts.files_hard >= files;
    findings.push_back(
        {Level::kBad, open_files, fmt::format("{}; each of {} ranks may need {}", *facts.files, job.local_ranks, files),
         may_raise
             ? fmt::format("ulimit -n {}", std::max<std::uint64_t>(
                                               files, std::min<std::uint64_t>(facts.files_hard.value_or(65536), 65536)))
             : "'* - nofile 65536' in a file of /etc/security/limits.d, LimitNOFILE= of the service, --ulimit "
               "nofile= of docker"});
  } else {
    findings.push_back({Level::kOk, open_files,
                        fmt::format("{}, enough for {} peers of a rank", *facts.files,
                                    (*facts.files - kFilesOfRank) / kFilesPerPeer)});
  }
  const std::uint64_t tasks = ranks * kTasksOfRank;
  if (facts.processes && *facts.processes < tasks)
    findings.push_back({Level::kBad, "processes (ulimit -u)",
                        fmt::format("{}, including threads; {} ranks need {}", *facts.processes, ranks, tasks),
                        "'* - nproc 65536' in a file of /etc/security/limits.d"});
  if (facts.group_tasks_left && *facts.group_tasks_left < tasks)
    findings.push_back({Level::kBad, "tasks of the control group",
                        fmt::format("{} more may start; {} ranks need {}", *facts.group_tasks_left, ranks, tasks),
                        "docker run --pids-limit, TasksMax= of the service"});
  return findings;
}

std::vector<Finding> JudgeCpus(const CpuFacts& facts, const PlannedJob& job) {
  std::vector<Finding> findings;
  const std::string have = facts.usable < facts.online ? fmt::format("{} of {} may be used", facts.usable, facts.online)
                                                       : fmt::format("{}", facts.usable);
  if (facts.usable > 0) {
    if (job.local_ranks > facts.usable)
      findings.push_back(
          {Level::kWarn, "cores",
           fmt::format("{}, for {} ranks: ranks share cores, which slows down small messages most", have,
                       job.local_ranks),
           facts.usable < facts.online
               ? "widen the affinity (taskset, --cpu-bind of srun, --bind-to of mpirun, --cpuset-cpus of docker)"
               : "start at most one rank for each core"});
    else
      findings.push_back({Level::kOk, "cores", fmt::format("{}, for {} ranks", have, job.local_ranks)});
  }
  if (facts.quota > 0 && facts.quota < std::min(job.local_ranks, std::max(facts.usable, 1)))
    findings.push_back(
        {Level::kWarn, "CPU quota",
         fmt::format(
             "the time of {:.3g} cores, for {} ranks: when it is used up, all ranks stop for the rest of the period",
             facts.quota, job.local_ranks),
         "docker run --cpus, CPUQuota= of the service, limits.cpu of Kubernetes"});
  if (facts.powersaving > 0)
    findings.push_back({Level::kWarn, "frequency",
                        fmt::format("the governor of {} cores is powersave", facts.powersaving),
                        "cpupower frequency-set -g performance"});
  // A clock that needs a system call is at least ten times as slow as one that does not, and waiting ranks read the
  // clock continuously.
  constexpr double kSlowClockNs = 200;
  const std::string source = facts.clock_source.empty() ? "unknown source" : facts.clock_source;
  if (facts.clock_ns > kSlowClockNs)
    findings.push_back(
        {Level::kWarn, "clock",
         fmt::format("{}: each reading of the clock is a system call ({:.0f} ns)", source, facts.clock_ns),
         "if tsc is in /sys/devices/system/clocksource/clocksource0/available_clocksource, write tsc to "
         "current_clocksource in the same folder (or boot with clocksource=tsc tsc=reliable)"});
  else if (facts.clock_ns > 0)
    findings.push_back({Level::kOk, "clock", fmt::format("{}, {:.0f} ns for each reading", source, facts.clock_ns)});
  if (facts.clock_synced && !*facts.clock_synced)
    findings.push_back({Level::kWarn, "time",
                        "not synchronised with other hosts: rondo trace aligns hosts by it, and the validity of "
                        "certificates is checked by it",
                        "start chrony or systemd-timesyncd (not needed if the host does this for a virtual machine)"});
  return findings;
}

}  // namespace rondo
