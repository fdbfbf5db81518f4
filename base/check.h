// RONDO_CHECK: if an invariant is broken, ends the process with file, line and a message, in every build. It is for
// programming mistakes; failures that users, peers or the system can cause are Errors instead.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace rondo::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, std::string_view message);

inline std::string CheckMessage() { return {}; }
template <typename... Args>
std::string CheckMessage(fmt::format_string<Args...> text, Args&&... args) {
  return fmt::format(text, std::forward<Args>(args)...);
}

}  // namespace rondo::internal

// Usage: RONDO_CHECK(a == b) or RONDO_CHECK(a == b, "chunk {} of {}", chunk, chunks).
#define RONDO_CHECK(condition, ...)                                                                                 \
  do {                                                                                                              \
    if (!(condition)) [[unlikely]]                                                                                  \
      ::rondo::internal::CheckFailed(__FILE__, __LINE__, #condition, ::rondo::internal::CheckMessage(__VA_ARGS__)); \
  } while (false)
