// With a sanitizer everything takes ten to fifty times as long. So tests that try all cases in a release build try only
// a sample with a sanitizer: the sanitizer sees every kind of case, the release build every case.
#pragma once

namespace rondo {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The stride of a sweep: 1, or `k` with a sanitizer.
constexpr int Every(int k) { return kSanitized ? k : 1; }

// Selects every combination of nested sweeps in a release build, and one of `k` with a sanitizer. Each value of each
// sweep is still selected if `k` has no common divisor with the length of any sweep.
class Sample {
 public:
  explicit Sample(int k) : stride_(Every(k)) {}
  // To be called once for each combination.
  bool Takes() { return number_++ % stride_ == 0; }

 private:
  const int stride_;
  int number_ = 0;
};

}  // namespace rondo
