// Collects facts about the host itself: memory, limits, cores and clock.
#include "tools/doctor/probe.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <sstream>
#include <utility>

#include "base/net/fd.h"
#include "collectives/cpu_list.h"
#include "transport/shm/shared_memory.h"
#include "transport/tcp/tcp.h"

namespace rondo {
namespace {

std::optional<std::uint64_t> SoftLimit(int resource) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::nullopt;
  return limit.rlim_cur;
}

// The remaining allowance of a cgroup and its ancestors: the minimum of limit - usage.
std::optional<std::uint64_t> GroupLeft(const HostFiles& files, const std::string& controller) {
  std::optional<std::uint64_t> left;
  for (const std::string& folder : files.GroupFolders(controller)) {
    const auto limit = files.Number(fmt::format("{}/{}.max", folder, controller));
    const auto now = files.Number(fmt::format("{}/{}.current", folder, controller));
    if (!limit || !now) continue;
    const std::uint64_t room = *limit - std::min(*limit, *now);
    if (!left || room < *left) left = room;
  }
  return left;
}

double QuotaOf(const HostFiles& files) {
  double least = 0;
  const auto add = [&](std::optional<std::uint64_t> quota, std::optional<std::uint64_t> period) {
    if (!quota || !period || *period == 0) return;
    const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
    if (least == 0 || cores < least) least = cores;
  };
  for (const std::string& folder : files.GroupFolders("cpu")) {
    std::istringstream words(files.Line(folder + "/cpu.max"));
    std::string quota, period;
    words >> quota >> period;
    add(ParseNumber(quota), ParseNumber(period));
    add(files.Number(folder + "/cpu.cfs_quota_us"), files.Number(folder + "/cpu.cfs_period_us"));
  }
  return least;
}

// Whether a process can read the memory of its sibling. Tests this with two children of this process, because the ranks
// of a job are siblings, too. Returns "" if it can, otherwise the reason why it cannot.
std::string WhySiblingsCannotRead() {
  int hold[2];
  if (pipe2(hold, O_CLOEXEC) != 0) return "";
  Fd held(hold[0]), holding(hold[1]);
  static volatile std::uint64_t word = 0;
  constexpr std::uint64_t kWord = 0x0123456789abcdef;
  const pid_t holder = fork();
  if (holder == 0) {
    holding.Close();
    word = kWord;
    char end;
    // Blocks until the parent closes its end of the pipe or dies.
    [[maybe_unused]] const ssize_t none = read(held.get(), &end, 1);
    _exit(0);
  }
  if (holder < 0) return "";
  const pid_t reader = fork();
  if (reader == 0) {
    holding.Close();
    std::uint64_t seen = 0;
    const iovec here{&seen, sizeof seen};
    const iovec there{const_cast<std::uint64_t*>(&word), sizeof word};
    _exit(process_vm_readv(holder, &here, 1, &there, 1, 0) == sizeof seen ? 0 : errno);
  }
  int status = 0;
  std::string why;
  if (reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status) && WEXITSTATUS(status) != 0)
    why = std::strerror(WEXITSTATUS(status));
  else if (reader > 0 && WIFSIGNALED(status))
    why = "the process that tried it was killed, perhaps by a seccomp filter";
  holding.Close();
  waitpid(holder, nullptr, 0);
  return why;
}

std::string WhyNoSharedMemory() {
  const Fd fd(memfd_create("rondo", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return std::strerror(errno);
  return fallocate(fd.get(), 0, 0, sysconf(_SC_PAGESIZE)) == 0 ? "" : std::strerror(errno);
}

}  // namespace

void ReadMounts(const HostFiles& files, EnvironmentFacts& facts) {
  for (const auto& [folder, sign] : {std::pair{"/proc", "/proc/self"}, std::pair{"/sys", "/sys/class"}})
    if (!files.Exists(sign)) facts.missing.emplace_back(folder);
}

void ReadMemory(const HostFiles& files, MemoryFacts& facts) {
  facts.dev_shm = files.Exists("/dev/shm");
  std::istringstream mounts(files.Text("/proc/self/mounts").value_or(""));
  for (std::string line; std::getline(mounts, line);) {  // A line is, for example, "tmpfs /dev/shm tmpfs rw,... 0 0".
    std::istringstream words(line);
    std::string device, at, type;
    // A later mount hides an earlier one.
    if (words >> device >> at >> type && at == "/dev/shm") facts.dev_shm_type = type;
  }
  facts.room = shm::MemoryLeft(files.Path(""));
  if (const auto host = FindHostId(files.Path("")); !host) facts.host_error = host.error().message();
  facts.ptrace_scope = files.Number("/proc/sys/kernel/yama/ptrace_scope");
}

void AskMemory(MemoryFacts& facts) {
  struct statvfs room {};
  if (facts.dev_shm && statvfs("/dev/shm", &room) == 0) {
    facts.dev_shm_bytes = std::uint64_t{room.f_blocks} * room.f_frsize;
    facts.dev_shm_free_bytes = std::uint64_t{room.f_bavail} * room.f_frsize;
  }
  facts.file_bytes_most = SoftLimit(RLIMIT_FSIZE);
  facts.memfd_error = WhyNoSharedMemory();
  facts.read_error = WhySiblingsCannotRead();
}

void ReadLimits(const HostFiles& files, LimitFacts& facts) { facts.group_tasks_left = GroupLeft(files, "pids"); }

void AskLimits(LimitFacts& facts) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    if (limit.rlim_cur != RLIM_INFINITY) facts.files = limit.rlim_cur;
    if (limit.rlim_max != RLIM_INFINITY) facts.files_hard = limit.rlim_max;
  }
  // The limit does not apply to root.
  if (geteuid() != 0) facts.processes = SoftLimit(RLIMIT_NPROC);
}

void ReadCpus(const HostFiles& files, CpuFacts& facts) {
  facts.online = CountCpus({files.Line("/sys/devices/system/cpu/online")});
  facts.quota = QuotaOf(files);
  const std::string folder = "/sys/devices/system/cpu/";
  for (const std::string& name : files.List(folder))
    facts.powersaving += files.Line(folder + name + "/cpufreq/scaling_governor") == "powersave";
  facts.clock_source = files.Line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
}

void AskCpus(CpuFacts& facts) {
  facts.usable = CountCpus({UsableCpus()});
  // Takes the minimum over several rounds, which is the cost when no other task uses the CPU core.
  constexpr int kRounds = 10, kLooks = 1000;
  const SteadyClock clock;
  for (int round = 0; round < kRounds; ++round) {
    const TimePoint begin = clock.Now();
    timespec now{};
    for (int look = 0; look < kLooks; ++look) clock_gettime(CLOCK_MONOTONIC, &now);
    const double ns = std::chrono::duration<double, std::nano>(clock.Now() - begin).count() / kLooks;
    facts.clock_ns = round == 0 ? ns : std::min(facts.clock_ns, ns);
  }
  timex time{};
  if (const int state = adjtimex(&time); state >= 0) facts.clock_synced = (time.status & STA_UNSYNC) == 0;
}

}  // namespace rondo
