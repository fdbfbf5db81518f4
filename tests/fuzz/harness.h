// Helpers for the harnesses of this folder. A harness is one file, NAME_fuzz.cc. It tests one parser that reads bytes
// from outside the process. In the namespace rondo::fuzz::NAME_fuzz it defines
//
//   CheckInput      checks what must hold for any bytes; a violation ends the process (RONDO_HOLDS)
//   HarnessCorpus   gives the inputs from which fuzzing begins: output of the encoders, and texts that people write
//
// All harnesses are compiled as one unit, and each becomes two programs (corpus.h). NAME_fuzz uses clang's libFuzzer
// with AddressSanitizer and UBSan, and searches for inputs that reach new code (tests/fuzz/run). NAME_fuzz_replay is an
// ordinary test, built by any compiler. It runs the seeds, all their prefixes, and slightly damaged seeds.
//
// An input is exactly the bytes that a peer would send or a file would contain, so a finding can be pasted into a unit
// test. Random choices of a harness (for example where a stream is cut) depend only on these bytes.
//
// Thread rule: one thread.
#pragma once

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/result.h"
#include "tests/fuzz/corpus.h"

namespace rondo::fuzz {

// ---- properties of parsers ----

// Checks that the error is valid: its code is one of Rondo's, its message is not empty, and all of its text is
// printable.
void CheckError(const Error& error);
template <typename T>
void CheckError(const Result<T>& result) {
  if (!result) CheckError(result.error());
}

// How an input is cut into the pieces of a stream. The pieces together are the input, and no piece is empty.
enum class Cut : std::uint8_t { kWhole, kBytes, kDrawn };
inline constexpr std::array kCuts{Cut::kWhole, Cut::kBytes, Cut::kDrawn};
// kDrawn cuts at points that a hash of the input determines.
std::vector<std::string_view> Pieces(std::string_view input, Cut cut);

// Equal inputs give equal numbers. The number has no other meaning.
std::uint64_t HashOf(std::string_view input);

// Records allocations from its construction on, if a sanitizer reports them. Without a sanitizer it records nothing and
// every check succeeds.
class Allocations {
 public:
  Allocations();
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  // Checks that no allocation so far was larger than `bytes`: a length in the input alone must not cause a large
  // allocation.
  void CheckLargest(std::size_t bytes) const;
};

namespace internal {
[[noreturn]] void Broken(const char* file, int line, const char* condition, std::string_view message);
inline std::string Message() { return {}; }
template <typename... Args>
std::string Message(fmt::format_string<Args...> text, Args&&... args) {
  return fmt::format(text, std::forward<Args>(args)...);
}
}  // namespace internal

}  // namespace rondo::fuzz

// Examples: RONDO_HOLDS(again == value), RONDO_HOLDS(again == value, "{} came back as {}", value, again)
#define RONDO_HOLDS(condition, ...)                                                                                   \
  do {                                                                                                                \
    if (!(condition)) [[unlikely]]                                                                                    \
      ::rondo::fuzz::internal::Broken(__FILE__, __LINE__, #condition, ::rondo::fuzz::internal::Message(__VA_ARGS__)); \
  } while (false)
