#include "base/reduce_op.h"

namespace rondo {
namespace {

bool IsBitwise(ReduceOp op) { return op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor; }

bool IsDefined(DataType type, ReduceOp op) {
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
  return "unknown";
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
