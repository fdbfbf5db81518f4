#include "tools/perf/outputs.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

namespace rondo {

Result<std::string> ReadBaseline(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // a folder can be opened but not read
  if (!file || !text) {
    return Fail(ErrorCode::kInvalidArgument, "--baseline: {} cannot be read: {}", path, std::strerror(errno));
  }
  return text.str();
}

Status CheckFiles(const PerfOutputs& outputs) {
  if (!outputs.baseline.empty()) RONDO_TRY(ReadBaseline(outputs.baseline));
  for (const auto& [flag, path] :
       {std::pair{"--json", &outputs.json}, {"--csv", &outputs.csv}, {"--html", &outputs.html}}) {
    if (path->empty() || *path == "-") continue;
    // A named pipe must not be opened here. Without a reader the open would block, and a reader would interpret our
    // close as the end of the data.
    std::error_code unknown;
    const bool is_pipe = std::filesystem::is_fifo(*path, unknown);
    if (is_pipe ? ::access(path->c_str(), W_OK) != 0 : !std::ofstream(*path, std::ios::app)) {
      return Fail(ErrorCode::kInvalidArgument, "{}: {} cannot be written: {}", flag, *path, std::strerror(errno));
    }
  }
  return {};
}

Status PrepareRecordDir(const PerfOutputs& outputs) {
  if (outputs.record_dir.empty()) return {};
  std::error_code failed;
  std::filesystem::create_directories(outputs.record_dir, failed);
  if (failed)
    return Fail(ErrorCode::kInvalidArgument, "--record-dir: {} cannot be made: {}", outputs.record_dir,
                failed.message());
  if (::access(outputs.record_dir.c_str(), W_OK | X_OK) != 0)
    return Fail(ErrorCode::kInvalidArgument, "--record-dir: {} cannot be written: {}", outputs.record_dir,
                std::strerror(errno));
  return {};
}

}  // namespace rondo
