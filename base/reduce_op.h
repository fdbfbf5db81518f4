// The operations of a reduction, and which types each is defined on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"

namespace rondo {

// The numbers go over the wire (docs/WIRE.md): append, never renumber.
enum class ReduceOp : std::uint8_t {
  kSum = 1,  // integers wrap modulo 2^bits
  kProd,     // integers wrap modulo 2^bits
  kMin,      // a NaN operand gives the canonical NaN; -0 is below +0
  kMax,      // likewise
  kAvg,      // the sum, divided once by the world size at the end; integers round towards zero
  kBand,     // bitwise on integers, logical on bool
  kBor,
  kBxor,
  kPremulSum,  // the sum of scale * operand, each rank with its own scale; floating types only
};

inline constexpr std::array kAllReduceOps{
    ReduceOp::kSum,  ReduceOp::kProd, ReduceOp::kMin,  ReduceOp::kMax,       ReduceOp::kAvg,
    ReduceOp::kBand, ReduceOp::kBor,  ReduceOp::kBxor, ReduceOp::kPremulSum,
};

// "sum", "band", "premul_sum" ...
std::string_view Name(ReduceOp op);
std::optional<ReduceOp> ParseReduceOp(std::string_view name);

// Whether the pairing makes sense: bool has min max band bor bxor; floating types have no band bor bxor; only floating
// types have premul_sum. Everything else is defined. The error is kInvalidArgument and names both.
Status CheckPairing(DataType type, ReduceOp op);

}  // namespace rondo
