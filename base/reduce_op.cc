#include "base/reduce_op.h"

namespace rondo {
namespace {

bool IsBitwise(ReduceOp op) { return op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor; }

// "user_0", "user_1" ... in static storage.
struct UserOpNames {
  std::array<std::array<char, 7>, kMaxUserOps> text{};
  constexpr UserOpNames() {
    constexpr std::string_view kPrefix = "user_";
    for (int i = 0; i < kMaxUserOps; ++i) {
      std::array<char, 7>& name = text[static_cast<std::size_t>(i)];
      std::size_t at = 0;
      for (const char c : kPrefix) name[at++] = c;
      if (i >= 10) name[at++] = static_cast<char>('0' + i / 10);
      name[at] = static_cast<char>('0' + i % 10);
    }
  }
  std::string_view Of(int index) const {
    return {text[static_cast<std::size_t>(index)].data(), index < 10 ? std::size_t{6} : std::size_t{7}};
  }
};
static_assert(kMaxUserOps <= 100, "a user's operation has two digits at most");
constexpr UserOpNames kUserOpNames;

bool IsDefined(DataType type, ReduceOp op) {
  if (IsUserDefined(op)) return true;
  if (type == DataType::kBool) return IsBitwise(op) || op == ReduceOp::kMin || op == ReduceOp::kMax;
  if (IsFloating(type)) return !IsBitwise(op);
  return op != ReduceOp::kPremulSum;
}

}  // namespace

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kProd: return "prod";
    case ReduceOp::kMin: return "min";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kAvg: return "avg";
    case ReduceOp::kBand: return "band";
    case ReduceOp::kBor: return "bor";
    case ReduceOp::kBxor: return "bxor";
    case ReduceOp::kPremulSum: return "premul_sum";
  }
  return IsUserDefined(op) ? kUserOpNames.Of(UserOpIndex(op)) : "unknown";
}

std::optional<ReduceOp> ParseReduceOp(std::string_view name) {
  for (ReduceOp op : kAllReduceOps)
    if (Name(op) == name) return op;
  return std::nullopt;
}

Status CheckPairing(DataType type, ReduceOp op) {
  if (IsDefined(type, op)) return {};
  return Fail(ErrorCode::kInvalidArgument, "operation {} is not defined on type {}", Name(op), Name(type));
}

}  // namespace rondo
