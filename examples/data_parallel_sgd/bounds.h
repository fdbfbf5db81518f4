// Computes how much a step of the ranks can differ, because of rounding alone, from a step of one process on the whole
// batch.
//
// Both steps start from the same parameters, and one sample's contribution to a gradient is bit for bit the same in
// both (model.h). So both sum the same numbers. They differ only in the order of the additions, in the point at which
// the sum is divided, and in the type that is sent. If every operand of a sum passes at most k roundings of unit
// roundoff u, then, in any order of the additions, the sum differs from the exact one by at most
//
//     k u / (1 - k u)  x  the sum of the operands' absolute values
//
// (Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2). The bound holds for every single
// parameter and every step, whatever the values. If a step exceeds the bound, a value was lost, added twice or put in
// the wrong place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "examples/data_parallel_sgd/optimizer.h"

namespace sgd {

// Describes how the ranks share one batch.
struct Sharing {
  std::uint64_t batch = 0;          // samples of all ranks together
  std::uint64_t largest_shard = 0;  // the number of samples of the rank with the most samples
  int world_size = 1;
  rondo::DataType type = rondo::DataType::kFloat32;  // the type in which gradients are sent
};

// |gradient of the ranks - gradient of one process| <= relative * (mean of the samples' |gradient|) + absolute
struct GradientBound {
  double relative = 0;
  double absolute = 0;  // for underflow; important for float16, because its smallest positive number is 2^-24
};
GradientBound BoundGradient(const Sharing& sharing);

// The relative bound of the loss. Losses are summed in float64 and are not negative: |difference| <= relative * loss.
double BoundLoss(const Sharing& sharing);

// The difference between two states, compared with the bound element by element.
struct Comparison {
  double largest_difference = 0;  // of any parameter
  // The largest ratio of a difference (of parameters or velocities) to its bound. Above 1, rounding alone cannot
  // explain the difference.
  double largest_share = 0;
  std::size_t worst = 0;  // the element with the largest ratio

  bool good() const { return largest_share <= 1; }
};

// Compares the states after one step from the same state. The gradients of the two steps differ by at most
// `gradient_bounds`, which are all positive. If an element is not finite in either state, its difference counts as
// infinite. REQUIRES: all arguments have the same number of elements.
Comparison CompareStep(const DescentOptions& options, const TrainingState& ranks, const TrainingState& one,
                       std::span<const double> gradient_bounds);

}  // namespace sgd
