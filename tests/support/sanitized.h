// Under a sanitizer everything takes ten to fifty times as long, so what is exhausted in release is sampled there: the
// sanitizer sees every kind of case, the release run every case.
#pragma once

namespace rondo {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The stride of a sweep: 1, and `k` under a sanitizer.
constexpr int Every(int k) { return kSanitized ? k : 1; }

// Takes every combination of nested sweeps in release, and one in `k` under a sanitizer. Each value of each sweep is
// still taken if `k` has no common divisor with the length of any sweep.
class Sample {
 public:
  explicit Sample(int k) : stride_(Every(k)) {}
  // Once a combination.
  bool Takes() { return number_++ % stride_ == 0; }

 private:
  const int stride_;
  int number_ = 0;
};

}  // namespace rondo
