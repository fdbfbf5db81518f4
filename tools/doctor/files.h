// What the kernel tells in files (/proc, /sys, /dev), below a root that a test puts its own tree at.
//
// Thread rule: a value; any thread.
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
  // The whole text; absent: it cannot be read.
  std::optional<std::string> Text(const std::string& path) const;
  // Its first line, "" where it cannot be read.
  std::string Line(const std::string& path) const;
  // Its first word; absent: that is no number from 0 on ("max", "-1").
  std::optional<std::uint64_t> Number(const std::string& path) const;
  // The names in a folder, sorted.
  std::vector<std::string> List(const std::string& path) const;

  // The folders of this process's control group that have a word in `controller`, its own first, then those around it;
  // of version 2 and version 1 alike.
  std::vector<std::string> GroupFolders(const std::string& controller) const;

 private:
  const std::string root_;
};

std::optional<std::uint64_t> ParseNumber(const std::string& text);

}  // namespace rondo
