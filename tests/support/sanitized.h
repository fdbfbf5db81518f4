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

// Of the combinations of nested sweeps every one, and under a sanitizer one in `k`: with a `k` that divides the length
// of no sweep, each value of each sweep is among them.
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
