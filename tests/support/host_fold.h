// For tests of reductions on devices: reduces several vectors with the host kernels, and computes averages as the
// contract of these kernels requires (kernels/reduce.h).
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "collectives/kernels/reduce.h"

namespace rondo {

// Computes ((operands[0] op operands[1]) op ...) for vectors of `elements` elements. `scales`: the factors of a
// pre-multiplied sum. `divisor`: the divisor of an average, otherwise 0.
inline std::vector<std::byte> FoldOnHost(DataType users, ReduceOp op, std::vector<std::vector<std::byte>> operands,
                                         std::size_t elements, std::span<const double> scales, int divisor) {
  const bool averages = op == ReduceOp::kAvg && divisor > 0;
  const DataType type = averages ? AverageTypeOf(users) : users;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::vector<std::byte>& operand = operands[i];
    if (op == ReduceOp::kPremulSum) Scale(operand.data(), operand.data(), elements, type, scales[i]);
    if (type == users) continue;
    std::vector<std::byte> wide(elements * SizeOf(type));
    Widen(wide.data(), operand.data(), elements, users);
    operand = std::move(wide);
  }
  const double scale = averages ? AverageScaleOf(type, divisor) : 1.0;
  std::vector<std::byte> result = operands[0];
  for (std::size_t i = 1; i < operands.size(); ++i) {
    const std::byte* const next = operands[i].data();
    const ScaleFactors factors{i == 1 ? scale : 1.0, scale};
    const bool last = averages && i + 1 == operands.size();
    if (last && scale != 1.0) {
      SumScaledAndDivide(result.data(), result.data(), next, elements, type, factors, divisor * scale);
    } else if (last) {
      SumAndDivide(result.data(), result.data(), next, elements, type, divisor);
    } else if (scale != 1.0) {
      SumScaled(result.data(), result.data(), next, elements, type, factors);
    } else {
      FindReduce(type, op)(result.data(), result.data(), next, elements);
    }
  }
  if (type == users) return result;
  std::vector<std::byte> narrow(elements * SizeOf(users));
  Narrow(narrow.data(), result.data(), elements, users);
  return narrow;
}

}  // namespace rondo
