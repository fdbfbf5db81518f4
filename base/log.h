// Where the library's few lines of text go. Handed in; a null pointer means silence. The library logs choices (which
// address, which congestion control, what fell back and why) and refusals, never an error that it also returns. What it
// writes is printable (printable.h), whatever strangers sent that it tells of.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/printable.h"

namespace rondo {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning };

// Thread rule: any thread.
class Logger {
 public:
  virtual ~Logger() = default;
  virtual void Write(LogLevel level, std::string_view text) = 0;
};

template <typename... Args>
void Log(Logger* logger, LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
  if (logger == nullptr) return;
  logger->Write(level, Printable(fmt::format(text, std::forward<Args>(args)...), LineFeeds::kKeep));
}

}  // namespace rondo
