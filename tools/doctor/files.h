// Reads the files of the kernel (/proc, /sys, /dev). A test can set a root folder that contains its own tree.
//
// Thread rule: a plain value; any thread may use it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rondo {

class HostFiles {
 public:
  explicit HostFiles(std::string root = "") : root_(std::move(root)) {}

  // Paths begin with "/".
  std::string Path(const std::string& path) const { return root_ + path; }
  bool Exists(const std::string& path) const;
  // The whole text; absent if the file cannot be read.
  std::optional<std::string> Text(const std::string& path) const;
  // The first line; "" if the file cannot be read.
  std::string Line(const std::string& path) const;
  // The first word as a number; absent if it is not a whole number of at least 0 ("max", "-1").
  std::optional<std::uint64_t> Number(const std::string& path) const;
  // The names in a folder, sorted.
  std::vector<std::string> List(const std::string& path) const;

  // The folders of the cgroups that have this controller: first the cgroup of this process, then its ancestors. Handles
  // cgroup versions 1 and 2.
  std::vector<std::string> GroupFolders(const std::string& controller) const;

 private:
  const std::string root_;
};

std::optional<std::uint64_t> ParseNumber(const std::string& text);

}  // namespace rondo
