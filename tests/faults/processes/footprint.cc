#include "tests/faults/processes/footprint.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

namespace rondo::processes {

namespace fs = std::filesystem;

namespace {

// The name of a thread; nullopt for a thread that is exiting. The kernel may still list a thread after it was joined.
std::optional<std::string> NameOfLiving(const fs::path& task) {
  constexpr unsigned kExiting = 0x4;  // the kernel's flag PF_EXITING, in the ninth field of /proc/PID/stat (proc(5))
  std::string line;
  std::getline(std::ifstream(task / "stat"), line);
  // the thread's name is in parentheses, and may contain parentheses
  const std::size_t open = line.find('('), close = line.rfind(')');
  // The thread ended after it was listed.
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(close + 1));
  std::string skipped;
  unsigned flags = 0;
  for (int field = 3; field < 9; ++field) rest >> skipped;
  rest >> flags;
  if ((flags & kExiting) != 0) return std::nullopt;
  return line.substr(open + 1, close - open - 1);
}

}  // namespace

Footprint Footprint::Take() {
  Footprint now;
  std::vector<int> numbers;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd"))
    numbers.push_back(std::stoi(entry.path().filename()));
  for (const int number : numbers) {
    // An error here is normal: the list contains the descriptor that read the folder, which is closed now.
    std::error_code gone;
    const fs::path what = fs::read_symlink(fmt::format("/proc/self/fd/{}", number), gone);
    if (!gone) now.descriptors[number] = what.string();
  }
  for (const auto& entry : fs::directory_iterator("/proc/self/task"))
    if (std::optional<std::string> name = NameOfLiving(entry.path()))
      now.threads[std::stoi(entry.path().filename())] = std::move(*name);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:rondo") != std::string::npos) ++now.shared_mappings;
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  now.resident_bytes = resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return now;
}

std::vector<std::string> Footprint::MoreThan(const Footprint& before) const {
  std::vector<std::string> more;
  for (const auto& [number, what] : descriptors)
    if (before.descriptors.count(number) == 0) more.push_back(fmt::format("descriptor {}: {}", number, what));
  for (const auto& [id, name] : threads)
    if (before.threads.count(id) == 0) more.push_back(fmt::format("thread {} '{}'", id, name));
  if (shared_mappings > before.shared_mappings)
    more.push_back(fmt::format("{} mappings of shared memory", shared_mappings - before.shared_mappings));
  return more;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace rondo::processes
