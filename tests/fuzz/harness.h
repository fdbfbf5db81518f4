// What the harnesses of this folder are made of. A harness is one file, NAME_fuzz.cc, about one parser that bytes from
// outside reach. In the namespace rondo::fuzz::NAME_fuzz it defines
//
//   CheckInput      what must hold for any bytes; an input that breaks it ends the process (RONDO_HOLDS)
//   HarnessCorpus   where fuzzing begins: what the encoders make, and what people write
//
// All harnesses are compiled as one unit, and each becomes two programs (corpus.h). NAME_fuzz, by clang's libFuzzer
// with AddressSanitizer and UBSan, looks for inputs that reach new code (tests/fuzz/run). NAME_fuzz_replay, by whatever
// builds the rest, is an ordinary test: it goes through the seeds, all their beginnings and small damages of them.
//
// An input is exactly the bytes that a peer would send or a file hold, so a finding can be pasted into a unit test.
// What a harness draws beside them (where a stream is cut, say) it derives from those bytes.
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

// ---- what parsers must hold ----

// The error is typed and can be shown: its code is one of ours, its message is not empty, and all of its text
// printable.
void CheckError(const Error& error);
template <typename T>
void CheckError(const Result<T>& result) {
  if (!result) CheckError(result.error());
}

// How an input is cut when it comes as a stream. The pieces make the input again, none is empty.
enum class Cut : std::uint8_t { kWhole, kBytes, kDrawn };
inline constexpr std::array kCuts{Cut::kWhole, Cut::kBytes, Cut::kDrawn};
// kDrawn: at points that a hash of the input decides.
std::vector<std::string_view> Pieces(std::string_view input, Cut cut);

// Equal inputs give equal numbers, which tell nothing about anything else.
std::uint64_t HashOf(std::string_view input);

// Watches what is allocated from its construction on, where a sanitizer tells of it; else it sees nothing, and holds.
class Allocations {
 public:
  Allocations();
  ~Allocations();
  Allocations(const Allocations&) = delete;
  Allocations& operator=(const Allocations&) = delete;

  // No allocation so far had more than `bytes`: a length that was only announced has not driven one.
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

// RONDO_HOLDS(again == value) or RONDO_HOLDS(again == value, "{} came back as {}", value, again)
#define RONDO_HOLDS(condition, ...)                                                                                   \
  do {                                                                                                                \
    if (!(condition)) [[unlikely]]                                                                                    \
      ::rondo::fuzz::internal::Broken(__FILE__, __LINE__, #condition, ::rondo::fuzz::internal::Message(__VA_ARGS__)); \
  } while (false)
