// Where memory runs out inside the library: an error like others, since no exception leaves it. The outermost calls and
// threads catch what everything below them throws (std::bad_alloc); there is no trying again.
#pragma once

#include <new>
#include <string_view>

#include "base/error.h"
#include "base/result.h"

namespace rondo {

// kOutOfMemory: "memory ran out while <doing>", or Error::MemoryRanOut() where there is none even for these words.
Error OutOfMemoryWhile(std::string_view doing) noexcept;

// What `call` returns, a Result or Status; kOutOfMemory where it ran out of memory.
template <typename Call>
auto OrOutOfMemory(std::string_view doing, Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Fail(OutOfMemoryWhile(doing));
  }
}

// For what can be left undone: words, records. Whether it was done.
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
