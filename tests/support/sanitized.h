// With a sanitizer, everything takes ten to fifty times as long. So tests that try all cases in a release build try
// only a sample with a sanitizer. The sanitizer sees every kind of case, and the release build sees every case.
#pragma once

namespace rondo {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The stride of a loop over all cases: `k` with a sanitizer, otherwise 1.
constexpr int Every(int k) { return kSanitized ? k : 1; }

// For nested loops over test values: selects every combination in a release build, and one of `k` combinations with a
// sanitizer. If `k` has no common divisor with the length of any loop, each value of each loop is still selected.
class Sample {
 public:
  explicit Sample(int k) : stride_(Every(k)) {}
  // Must be called once for each combination. True: the combination is selected.
  bool Takes() { return number_++ % stride_ == 0; }

 private:
  const int stride_;
  int number_ = 0;
};

}  // namespace rondo
