// The output of commands: messages on stderr, and results on stdout or in a file.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/result.h"

namespace rondo {

// Like fmt::print(stderr, ...), but does not throw if stderr cannot be written (2>&1 | head), so that the command can
// continue.
template <typename... Args>
void PrintError(fmt::format_string<Args...> text, Args&&... args) {
  const std::string words = fmt::format(text, std::forward<Args>(args)...);
  std::fwrite(words.data(), 1, words.size(), stderr);
}

// Prints "rondo perf: text" for the command "perf", and returns `exit_code`.
inline int Complain(std::string_view command, std::string_view text, int exit_code) {
  PrintError("rondo {}: {}\n", command, text);
  return exit_code;
}

// Prints the library's warnings to stderr, prefixed by the command's name.
class StderrWarnings final : public Logger {
 public:
  explicit StderrWarnings(std::string command) : command_(std::move(command)) {}
  void Write(LogLevel level, std::string_view text) override {
    if (level == LogLevel::kWarning) PrintError("rondo {}: {}\n", command_, text);
  }

 private:
  const std::string command_;
};

// Writes `text` to the file at `path`; "-" means stdout. `flag` is named in errors. kResource: the text cannot be
// written.
Status WriteOutput(const char* flag, const std::string& path, const std::string& text);

// Flushes stdout. Returns 0 if all writes to it have succeeded, otherwise an errno.
int FlushStdout();

}  // namespace rondo
