// The destination of the library's log lines. The caller passes a Logger to the library; a null pointer disables
// logging. The library logs its choices (which address, which congestion control, which fallback and why) and refusals.
// It never logs an error that it also returns. All log text is made printable (printable.h), because it may quote bytes
// of foreign clients.
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
