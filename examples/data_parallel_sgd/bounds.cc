#include "examples/data_parallel_sgd/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sgd {
namespace {

constexpr double kFloat32Unit = 0x1p-24;

double UnitRoundoff(rondo::DataType type) {
  switch (type) {
    case rondo::DataType::kFloat16: return 0x1p-11;
    case rondo::DataType::kBfloat16: return 0x1p-8;
    default: return kFloat32Unit;
  }
}

// The largest error of rounding to a subnormal number: half of the smallest subnormal number.
double Underflow(rondo::DataType type) {
  switch (type) {
    case rondo::DataType::kFloat16: return 0x1p-25;
    case rondo::DataType::kBfloat16: return 0x1p-134;
    default: return 0x1p-150;
  }
}

// Higham's gamma: the largest relative error of k roundings.
double Gamma(std::uint64_t roundings, double unit) {
  const double product = static_cast<double>(roundings) * unit;
  return product < 1 ? product / (1 - product) : std::numeric_limits<double>::infinity();
}

}  // namespace

GradientBound BoundGradient(const Sharing& sharing) {
  // The roundings of one process: the product of a sample's input and derivative, the sum over the batch, the division
  // 1 / batch size, and the multiplication by this quotient.
  const double one = Gamma(1 + sharing.batch + 2, kFloat32Unit);
  // The roundings of a rank: the product of a sample's input and derivative, the sum over the rank's shard, the
  // division that gives the rank's weight, and the multiplication by this weight.
  const double rank = Gamma(1 + sharing.largest_shard + 2, kFloat32Unit);
  // The roundings of the transfer: conversion to the sent type (none for float32), up to world_size - 1 consecutive
  // additions, and the division of the average.
  const double wire = Gamma(static_cast<std::uint64_t>(sharing.world_size) + 1, UnitRoundoff(sharing.type));
  // The errors from underflow: the average of the errors of the ranks' conversions, and the error of the division. The
  // errors of the products in float32 are much smaller, both on the ranks and in one process.
  return {one + (1 + rank) * (1 + wire) - 1, 4 * Underflow(sharing.type) + 4 * Underflow(rondo::DataType::kFloat32)};
}

double BoundLoss(const Sharing& sharing) {
  constexpr double kUnit = 0x1p-53;
  return Gamma(sharing.batch + 1, kUnit) +
         Gamma(sharing.largest_shard + static_cast<std::uint64_t>(sharing.world_size) + 1, kUnit);
}

Comparison CompareStep(const DescentOptions& options, const TrainingState& ranks, const TrainingState& one,
                       std::span<const double> gradient_bounds) {
  // Covers second-order terms of the roundings below and the roundings of this function itself.
  constexpr double kSecondOrder = 1 + 0x1p-20;
  Comparison comparison;
  const auto compare = [&](std::size_t at, double difference, double bound) {
    const double share = std::isfinite(difference) ? difference / bound : std::numeric_limits<double>::infinity();
    if (share <= comparison.largest_share) return;
    comparison.largest_share = share;
    comparison.worst = at;
  };
  for (std::size_t i = 0; i < gradient_bounds.size(); ++i) {
    // velocity = fl(momentum * velocity + gradient): the velocity before the step is the same for the ranks and for one
    // process.
    const double velocities = std::abs(double{ranks.velocity[i]}) + std::abs(double{one.velocity[i]});
    const double velocity_bound = (gradient_bounds[i] + kFloat32Unit * velocities) * kSecondOrder;
    compare(i, std::abs(double{ranks.velocity[i]} - double{one.velocity[i]}), velocity_bound);
    // parameters = fl(parameters - fl(rate * velocity)): the parameters before the step are the same for the ranks and
    // for one process.
    const double parameters = std::abs(double{ranks.parameters[i]}) + std::abs(double{one.parameters[i]});
    const double rate = options.learning_rate;
    const double bound =
        (rate * velocity_bound + kFloat32Unit * (rate * velocities + parameters)) * kSecondOrder + 0x1p-148;
    const double difference = std::abs(double{ranks.parameters[i]} - double{one.parameters[i]});
    compare(i, difference, bound);
    comparison.largest_difference = std::max(comparison.largest_difference, difference);
  }
  return comparison;
}

}  // namespace sgd
