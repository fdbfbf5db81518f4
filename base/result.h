// Result<T> is a value or an Error. Status is success or an Error. No exception crosses a public header of Rondo.
#pragma once

#include <fmt/core.h>

#include <tl/expected.hpp>
#include <utility>

#include "base/error.h"

namespace rondo {

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

// Makes the error that a function returns, for example
//   return Fail(ErrorCode::kInvalidArgument, "rank {} is outside 0..{}", rank, world - 1);
template <typename... Args>
tl::unexpected<Error> Fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  return tl::unexpected<Error>(Error(code, fmt::format(text, std::forward<Args>(args)...)));
}
inline tl::unexpected<Error> Fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace rondo

#define RONDO_CONCAT_INNER(a, b) a##b
#define RONDO_CONCAT(a, b) RONDO_CONCAT_INNER(a, b)

// RONDO_TRY(Status or Result): if it is an error, returns the error from the enclosing function.
#define RONDO_TRY(...)                                                        \
  do {                                                                        \
    if (auto rondo_status = (__VA_ARGS__); !rondo_status)                     \
      return tl::unexpected<::rondo::Error>(std::move(rondo_status).error()); \
  } while (false)

// RONDO_ASSIGN(auto value, Result): assigns the value, or returns the error from the enclosing function.
#define RONDO_ASSIGN(lhs, ...) RONDO_ASSIGN_INNER(RONDO_CONCAT(rondo_result_, __LINE__), lhs, __VA_ARGS__)
#define RONDO_ASSIGN_INNER(result, lhs, ...)                                     \
  auto result = (__VA_ARGS__);                                                   \
  if (!result) return tl::unexpected<::rondo::Error>(std::move(result).error()); \
  lhs = std::move(*result)
