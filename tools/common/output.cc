#include "tools/common/output.h"

#include <cerrno>
#include <cstring>
#include <fstream>

namespace rondo {

Status WriteOutput(const char* flag, const std::string& path, const std::string& text) {
  if (path == "-") {
    const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (whole && std::fflush(stdout) == 0) return {};
    return Fail(ErrorCode::kResource, "{}: stdout cannot be written: {}", flag, std::strerror(errno));
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.flush();
  if (!file) return Fail(ErrorCode::kResource, "{}: {} cannot be written: {}", flag, path, std::strerror(errno));
  return {};
}

int FlushStdout() {
  if (std::fflush(stdout) != 0) return errno;
  // EIO stands for the errno of an earlier failed write, which is not known any more.
  return std::ferror(stdout) != 0 ? EIO : 0;
}

}  // namespace rondo
