// A tree of files that a test makes and uses instead of "/". It imitates the files in which a kernel describes a
// machine. The destructor removes the tree.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace rondo::testing {

class FileTree {
 public:
  FileTree() {
    std::string name = (std::filesystem::temp_directory_path() / "tree_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root_ = name;
  }
  ~FileTree() { std::filesystem::remove_all(root_); }
  FileTree(const FileTree&) = delete;

  // Adds a file. The path must begin with "/".
  FileTree& File(const std::string& path, const std::string& text = "") {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
    return *this;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace rondo::testing
