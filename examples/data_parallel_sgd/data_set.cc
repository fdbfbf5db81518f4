#include "examples/data_parallel_sgd/data_set.h"

#include <cmath>
#include <numbers>

#include "base/random.h"

namespace sgd {
namespace {

constexpr double kTurns = 0.6;    // revolutions of each arm
constexpr double kNoise = 0.15;   // the largest random change of the angle, in radians
constexpr double kSpread = 1.75;  // the factor of the radius; it gives the features a variance of about one

}  // namespace

Rows Part(Rows rows, std::uint64_t index, std::uint64_t parts) {
  const std::uint64_t whole = rows.size() / parts;
  const std::uint64_t left_over = rows.size() % parts;  // the first left_over parts have one row more
  const auto start = [&](std::uint64_t part) {
    return rows.begin + part * whole + (part < left_over ? part : left_over);
  };
  return {start(index), start(index + 1)};
}

Sample Spirals::At(std::uint64_t row) const {
  rondo::Random random(rondo::Random(seed_ + row).Next());
  const std::size_t label = row % kClasses;
  const double along = random.Unit();
  const double arm = static_cast<double>(label) / kClasses;
  const double angle = 2 * std::numbers::pi * (arm + kTurns * along) + kNoise * (2 * random.Unit() - 1);
  const double radius = kSpread * along;
  return {{static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))}, label};
}

std::vector<Sample> Spirals::Load(Rows rows) const {
  std::vector<Sample> samples;
  samples.reserve(rows.size());
  for (std::uint64_t row = rows.begin; row < rows.end; ++row) samples.push_back(At(row));
  return samples;
}

}  // namespace sgd
