// Which seeds a test runs: those that the environment names, otherwise the first N, where N is the test's default.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace rondo::test {

inline std::uint64_t NumberFrom(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Under AddressSanitizer a scenario takes twenty times as long, and a job with fibers fifty times as long.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr std::uint64_t kSeedsAreFewerBy = 15, kJobsAreFewerBy = 30;
#else
inline constexpr std::uint64_t kSeedsAreFewerBy = 1, kJobsAreFewerBy = 1;
#endif

// The number of seeds: RONDO_SEEDS if it is set, otherwise `ordinarily` divided by `fewer_by`.
inline std::uint64_t SeedsFrom(std::uint64_t ordinarily, std::uint64_t fewer_by = kSeedsAreFewerBy) {
  return NumberFrom("RONDO_SEEDS", ordinarily / fewer_by);
}

}  // namespace rondo::test
