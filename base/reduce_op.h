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
  // The sum, divided once by the world size at the end; integers round towards zero. Right wherever it fits the type:
  // integers and float16 are summed in a wider one (AverageTypeOf), other floats scaled (kernels/reduce.h).
  kAvg,
  kBand,  // bitwise on integers, logical on bool
  kBor,
  kBxor,
  kPremulSum,  // the sum of scale * operand, each rank with its own scale; floating types only
  // From kFirstUserOp on: what a communicator's users defined, in the order in which they did.
};

inline constexpr std::array kAllReduceOps{
    ReduceOp::kSum,  ReduceOp::kProd, ReduceOp::kMin,  ReduceOp::kMax,       ReduceOp::kAvg,
    ReduceOp::kBand, ReduceOp::kBor,  ReduceOp::kBxor, ReduceOp::kPremulSum,
};

// Operations of users (Communicator::DefineOperation). The number says which of them; what it computes is known only to
// the communicator that gave it.
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

// "sum", "band", "premul_sum" ...; of users "user_0", "user_1" ...
std::string_view Name(ReduceOp op);
// Names of kAllReduceOps only.
std::optional<ReduceOp> ParseReduceOp(std::string_view name);

// Whether the pairing makes sense: bool has min max band bor bxor; floating types have no band bor bxor; only floating
// types have premul_sum. Everything else is defined, users' operations on every type. The error is kInvalidArgument and
// names both.
Status CheckPairing(DataType type, ReduceOp op);

}  // namespace rondo
