// What commands say: words on stderr, and texts that are asked for on stdout or in a file.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/result.h"

namespace rondo {

// As fmt::print(stderr, ...), which throws where nobody reads any more (2>&1 | head): what else there is to do is done
// all the same.
template <typename... Args>
void PrintError(fmt::format_string<Args...> text, Args&&... args) {
  const std::string words = fmt::format(text, std::forward<Args>(args)...);
  std::fwrite(words.data(), 1, words.size(), stderr);
}

// Says what is wrong, "rondo perf: text" for the command "perf", and returns the exit code.
inline int Complain(std::string_view command, std::string_view text, int exit_code) {
  PrintError("rondo {}: {}\n", command, text);
  return exit_code;
}

// Puts the library's warnings on stderr, behind the command's name.
class StderrWarnings final : public Logger {
 public:
  explicit StderrWarnings(std::string command) : command_(std::move(command)) {}
  void Write(LogLevel level, std::string_view text) override {
    if (level == LogLevel::kWarning) PrintError("rondo {}: {}\n", command_, text);
  }

 private:
  const std::string command_;
};

// Writes `text` to the file that `flag` names, "-" for stdout. kResource.
Status WriteOutput(const char* flag, const std::string& path, const std::string& text);

// Whether all that was written to stdout has come through: 0, else why not, as errno.
int FlushStdout();

}  // namespace rondo
