// How far rounding alone can take the ranks' step from one process's step on the whole batch.
//
// Both start from the same parameters, and what a sample adds to a gradient has the same bits in both (model.h). So
// they sum the same numbers and differ only in the order of the additions, in where they divide, and in the type that
// travels. A sum in which every operand goes through at most k roundings of unit roundoff u differs from the exact one
// by at most
//
//     k u / (1 - k u)  x  the sum of the operands' absolute values
//
// in any order (Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2). The bound holds for every
// single parameter and every step, whatever the values: a step beyond it has lost, doubled or misplaced something.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "examples/data_parallel_sgd/optimizer.h"

namespace sgd {

// How the ranks share one batch.
struct Sharing {
  std::uint64_t batch = 0;          // samples, of all ranks together
  std::uint64_t largest_shard = 0;  // samples of the rank that has most
  int world_size = 1;
  rondo::DataType type = rondo::DataType::kFloat32;  // gradients on the wire
};

// |gradient of the ranks - gradient of one process| <= relative * (mean of the samples' |gradient|) + absolute
struct GradientBound {
  double relative = 0;
  double absolute = 0;  // underflow; matters for float16, whose smallest number is 2^-24
};
GradientBound BoundGradient(const Sharing& sharing);

// Losses are summed in float64 and not negative: |difference| <= relative * loss.
double BoundLoss(const Sharing& sharing);

// Two states, element by element, against the bound.
struct Comparison {
  double largest_difference = 0;  // of a parameter
  double largest_share = 0;  // of a difference (parameters, velocities) in its bound; above 1: not by rounding alone
  std::size_t worst = 0;     // the element with that share

  bool good() const { return largest_share <= 1; }
};

// The states after one step from the same state, whose gradients differ by at most `gradient_bounds`, all positive. An
// element that is not finite on either side is infinitely far.
// REQUIRES: all as many elements.
Comparison CompareStep(const DescentOptions& options, const TrainingState& ranks, const TrainingState& one,
                       std::span<const double> gradient_bounds);

}  // namespace sgd
