#include "collectives/engine/host_mover.h"

#include <cstring>

#include "base/check.h"
#include "collectives/kernels/copy.h"

namespace rondo {

void HostMover::Start(const MoveContext& context, std::size_t streams) {
  if (context.type != context_.type || context.op != context_.op || reduce_ == nullptr) {
    element_bytes_ = SizeOf(context.type);
    reduce_ = FindReduce(context.type, context.op);
  }
  context_ = context;
  scale_ = context.op == ReduceOp::kAvg ? AverageScaleOf(context.type, context.world_size) : 1.0;
  done_.assign(streams, 0);
}

void HostMover::Submit(std::uint32_t stream, const Move& move) {
  const std::size_t elements = move.bytes / element_bytes_;
  switch (move.kind) {
    case MoveKind::kCopy:
      if (move.destination == move.left || move.bytes == 0) break;
      if (move.past_caches) {
        CopyPastCaches(move.destination, move.left, move.bytes);
      } else {
        std::memcpy(move.destination, move.left, move.bytes);
      }
      break;
    case MoveKind::kScale: Scale(move.destination, move.left, elements, context_.type, context_.scale); break;
    case MoveKind::kDivide: DivideBy(move.destination, move.left, elements, context_.type, context_.world_size); break;
    case MoveKind::kReduce:
      RONDO_CHECK(reduce_ != nullptr, "{} on {}", Name(context_.op), Name(context_.type));
      if (scale_ != 1.0 && (move.left_is_input || move.right_is_input)) {
        SumScaled(move.destination, move.left, move.right, elements, context_.type, FactorsOf(move));
      } else {
        reduce_(move.destination, move.left, move.right, elements);
      }
      break;
    case MoveKind::kReduceDivide:
      if (scale_ != 1.0) {
        SumScaledAndDivide(move.destination, move.left, move.right, elements, context_.type, FactorsOf(move),
                           context_.world_size * scale_);
      } else {
        SumAndDivide(move.destination, move.left, move.right, elements, context_.type, context_.world_size);
      }
      break;
  }
  done_[stream] += move.bytes;
}

}  // namespace rondo
