// Samples (times of iterations) in bounded memory. When a million samples are kept, every second one is dropped, and
// from then on only every second new sample is kept. When a million are kept again, every second one is dropped again,
// and then only every fourth new sample is kept, and so on. Minimum, maximum and count cover all samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace rondo {

// Thread rule: a value.
class TimeSamples {
 public:
  explicit TimeSamples(std::size_t most_kept = 1 << 20) : most_kept_(most_kept) {}

  void Add(double us) {
    min_ = std::min(min_, us);
    max_ = std::max(max_, us);
    if (count_++ % stride_ != 0) return;
    kept_.push_back(us);
    if (kept_.size() < most_kept_) return;
    for (std::size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
    kept_.resize((kept_.size() + 1) / 2);
    stride_ *= 2;
  }

  std::uint64_t count() const { return count_; }
  double min() const { return min_; }
  double max() const { return max_; }
  // The quantile: the time below which `part` (0 to 1) of the samples lie. REQUIRES: at least one sample.
  double Quantile(double part) {
    std::sort(kept_.begin(), kept_.end());
    return kept_[static_cast<std::size_t>(std::lround(part * static_cast<double>(kept_.size() - 1)))];
  }

 private:
  std::size_t most_kept_;
  std::uint64_t count_ = 0;
  std::uint64_t stride_ = 1;
  std::vector<double> kept_;
  double min_ = std::numeric_limits<double>::max();
  double max_ = 0;
};

}  // namespace rondo
