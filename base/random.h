// A pseudorandom generator, which callers pass to the functions that need it: SplitMix64 (Steele, Lea, Flood: "Fast
// splittable pseudorandom number generators", OOPSLA 2014). The same seed gives the same numbers on every machine. The
// distributions of the standard library do not guarantee this.
#pragma once

#include <cstdint>

namespace rondo {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, below); 0 for below == 0. The bias of the modulo is under 2^-32 for every bound that Rondo uses.
  std::uint64_t Below(std::uint64_t below) { return below == 0 ? 0 : Next() % below; }
  // Uniform in [low, high].
  std::uint64_t Between(std::uint64_t low, std::uint64_t high) { return low + Below(high - low + 1); }
  // Uniform in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  bool Chance(double probability) { return Unit() < probability; }
  // Makes an independent stream.
  Random Split() { return Random(Next()); }

 private:
  std::uint64_t state_;
};

}  // namespace rondo
