// A data set that needs no file: three noisy spirals in the plane, one for each class, which no straight line can
// separate.
//
// A sample is a pure function of (seed, row). So a process can compute only the rows of its own shard, just as a data
// loader would read only these rows. Any process can also compute all rows, to check the results of the other
// processes.
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

// Cuts rows into `parts` consecutive parts, whose sizes differ by at most one, and returns the part at `index`. If
// there are more parts than rows, some parts are empty. REQUIRES: index < parts.
Rows Part(Rows rows, std::uint64_t index, std::uint64_t parts);

class Spirals {
 public:
  explicit Spirals(std::uint64_t seed) : seed_(seed) {}

  // Gives the sample of a row. Every row number has its own sample, and there is no largest row number.
  Sample At(std::uint64_t row) const;
  std::vector<Sample> Load(Rows rows) const;

 private:
  std::uint64_t seed_;
};

}  // namespace sgd
