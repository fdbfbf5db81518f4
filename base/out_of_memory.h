// Functions that report exhausted memory as an Error. This is necessary because no exception leaves the library. The
// outermost functions and threads catch std::bad_alloc. They do not retry the operation.
#pragma once

#include <new>
#include <string_view>

#include "base/error.h"
#include "base/result.h"

namespace rondo {

// kOutOfMemory: "memory ran out while <doing>", or Error::MemoryRanOut() if there is not enough memory for that text
// either.
Error OutOfMemoryWhile(std::string_view doing) noexcept;

// Returns the Result or Status of `call`, or kOutOfMemory if `call` threw std::bad_alloc.
template <typename Call>
auto OrOutOfMemory(std::string_view doing, Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Fail(OutOfMemoryWhile(doing));
  }
}

// Runs `call`. Returns false if `call` threw std::bad_alloc. Only for work that may be skipped, such as messages and
// records.
template <typename Call>
bool IfMemoryAllows(Call&& call) noexcept {
  try {
    call();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace rondo
