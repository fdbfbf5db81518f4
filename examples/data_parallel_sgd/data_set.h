// A data set that needs no file: three noisy spirals in the plane, one per class, that no straight line can part.
//
// A sample is a pure function of (seed, row), so every process can make just the rows of its own shard, as a loader
// would read them, and any process can make all of them, to check the others.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sgd {

inline constexpr std::size_t kFeatures = 2;
inline constexpr std::size_t kClasses = 3;

struct Sample {
  std::array<float, kFeatures> features{};
  std::size_t label = 0;  // below kClasses
};

// Rows [begin, end).
struct Rows {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
};

// Cuts rows into `parts` that lie one after the other and differ in size by at most one, and gives the one at `index`.
// Parts are empty where there are more parts than rows. REQUIRES: index < parts.
Rows Part(Rows rows, std::uint64_t index, std::uint64_t parts);

class Spirals {
 public:
  explicit Spirals(std::uint64_t seed) : seed_(seed) {}

  // Rows never end: each is a new sample.
  Sample At(std::uint64_t row) const;
  std::vector<Sample> Load(Rows rows) const;

 private:
  std::uint64_t seed_;
};

}  // namespace sgd
