#include "tools/doctor/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "base/cgroup.h"
#include "base/net/fd.h"

namespace rondo {

bool HostFiles::Exists(const std::string& path) const {
  std::error_code error;
  return std::filesystem::exists(Path(path), error);
}

std::optional<std::string> HostFiles::Text(const std::string& path) const {
  const Fd file(open(Path(path).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text;
  char part[4096];
  ssize_t got;
  while ((got = read(file.get(), part, sizeof part)) > 0) text.append(part, static_cast<std::size_t>(got));
  // Many files of /sys can be opened, but reading them fails.
  if (got < 0) return std::nullopt;
  return text;
}

std::string HostFiles::Line(const std::string& path) const {
  const std::string text = Text(path).value_or("");
  return text.substr(0, text.find('\n'));
}

std::optional<std::uint64_t> HostFiles::Number(const std::string& path) const {
  const std::string line = Line(path);
  return ParseNumber(line.substr(0, line.find_first_of(" \t")));
}

std::vector<std::string> HostFiles::List(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(Path(path), error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> HostFiles::GroupFolders(const std::string& controller) const {
  return CgroupFolders(controller, root_);
}

std::optional<std::uint64_t> ParseNumber(const std::string& text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return !text.empty() && error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace rondo
