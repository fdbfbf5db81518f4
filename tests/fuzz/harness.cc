#include "tests/fuzz/harness.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/printable.h"
#include "base/random.h"

// Defined by the sanitizers' runtimes (sanitizer/allocator_interface.h); otherwise null.
// NOLINTNEXTLINE(bugprone-reserved-identifier): theirs
extern "C" __attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void*,
                                                                                                 std::size_t),
                                                                               void (*freed)(const volatile void*));

namespace rondo::fuzz {
namespace {

// These variables are global because the allocator's hook, which writes them, gets no pointer to an object of ours.
bool g_watching = false;
std::size_t g_largest_bytes = 0;

void Allocated(const volatile void*, std::size_t bytes) {
  if (g_watching) g_largest_bytes = std::max(g_largest_bytes, bytes);
}
void Freed(const volatile void*) {}

}  // namespace

void CheckError(const Error& error) {
  const auto number = static_cast<std::uint8_t>(error.code());
  RONDO_HOLDS(ErrorCodeFromNumber(number) == error.code(), "code {}", number);
  RONDO_HOLDS(!error.message().empty(), "{}", Name(error.code()));
  const std::string text = error.ToString();
  RONDO_HOLDS(IsPrintable(text, LineFeeds::kKeep), "{}", Printable(text));
}

std::vector<std::string_view> Pieces(std::string_view input, Cut cut) {
  std::vector<std::string_view> pieces;
  Random random(HashOf(input));
  while (!input.empty()) {
    std::size_t bytes = input.size();
    if (cut == Cut::kBytes) bytes = 1;
    if (cut == Cut::kDrawn) bytes = 1 + random.Below(random.Chance(0.5) ? 4 : input.size());
    bytes = std::min(bytes, input.size());
    pieces.push_back(input.substr(0, bytes));
    input.remove_prefix(bytes);
  }
  return pieces;
}

std::uint64_t HashOf(std::string_view input) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : input) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Allocations::Allocations() {
  static const bool hooked = __sanitizer_install_malloc_and_free_hooks != nullptr &&
                             __sanitizer_install_malloc_and_free_hooks(Allocated, Freed) != 0;
  g_largest_bytes = 0;
  g_watching = hooked;
}

Allocations::~Allocations() { g_watching = false; }

void Allocations::CheckLargest(std::size_t bytes) const {
  RONDO_HOLDS(g_largest_bytes <= bytes, "an allocation of {} bytes, where {} are enough", g_largest_bytes, bytes);
}

namespace internal {

void Broken(const char* file, int line, const char* condition, std::string_view message) {
  fmt::print(stderr, "{}:{}: this must hold for any input: {} {}\n", file, line, condition, message);
  std::fflush(stderr);
  std::abort();
}

}  // namespace internal
}  // namespace rondo::fuzz

// Called by libFuzzer; `data` is a copy of exactly `size` bytes, so that a read past its end is detected.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rondo::fuzz::CheckInput({reinterpret_cast<const char*>(data), size});
  return 0;
}
