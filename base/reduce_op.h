// The reduction operations, and the types on which each is defined.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"
#include "base/result.h"

namespace rondo {

// The numbers are part of the wire protocol (docs/WIRE.md): append only, never renumber.
enum class ReduceOp : std::uint8_t {
  kSum = 1,  // integers wrap modulo 2^bits
  kProd,     // integers wrap modulo 2^bits
  kMin,      // a NaN operand gives the canonical NaN; -0 is below +0
  kMax,      // a NaN operand gives the canonical NaN; -0 is below +0
  // The sum, divided by the world size once, at the end; integers round towards zero. The result is correct if it fits
  // the type, because integers and float16 are summed in a wider type (AverageTypeOf), and other floats are scaled
  // (kernels/reduce.h).
  kAvg,
  kBand,  // bitwise on integers, logical on bool
  kBor,
  kBxor,
  kPremulSum,  // the sum of scale * operand; each rank has its own scale; floating types only
  // Numbers from kFirstUserOp on are operations that users of the communicator defined, in the order of definition.
};

inline constexpr std::array kAllReduceOps{
    ReduceOp::kSum,  ReduceOp::kProd, ReduceOp::kMin,  ReduceOp::kMax,       ReduceOp::kAvg,
    ReduceOp::kBand, ReduceOp::kBor,  ReduceOp::kBxor, ReduceOp::kPremulSum,
};

// Operations that users define (Communicator::DefineOperation). The number is an index; only the communicator that
// assigned it knows the function.
inline constexpr std::uint8_t kFirstUserOp = 128;
inline constexpr int kMaxUserOps = 64;
constexpr bool IsUserDefined(ReduceOp op) {
  const auto number = static_cast<std::uint8_t>(op);
  return number >= kFirstUserOp && number < kFirstUserOp + kMaxUserOps;
}
// REQUIRES: 0 <= index < kMaxUserOps.
constexpr ReduceOp UserOp(int index) { return static_cast<ReduceOp>(kFirstUserOp + index); }
// REQUIRES: IsUserDefined(op).
constexpr int UserOpIndex(ReduceOp op) { return static_cast<std::uint8_t>(op) - kFirstUserOp; }

// "sum", "band", "premul_sum" ...; for user-defined operations "user_0", "user_1" ...
std::string_view Name(ReduceOp op);
// Accepts the names of kAllReduceOps only.
std::optional<ReduceOp> ParseReduceOp(std::string_view name);

// Whether `op` is defined on `type`. bool has min, max, band, bor and bxor. Floating types do not have band, bor and
// bxor. Only floating types have premul_sum. All other pairs are defined, and user-defined operations are defined on
// every type. The error is kInvalidArgument and names both.
Status CheckPairing(DataType type, ReduceOp op);

}  // namespace rondo
