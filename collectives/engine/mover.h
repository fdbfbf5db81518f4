// A Mover copies and reduces data. The engine submits moves and then reads a count of bytes done, which may lag behind.
// The host's mover computes at once (host_mover.h). The mover that reads device memory works asynchronously
// (collectives/device/reading_mover.h). The tests have a mover that works late and in pieces.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/reduce_op.h"

namespace rondo {

enum class MoveKind : std::uint8_t {
  kCopy,          // destination = left
  kScale,         // destination = scale * left
  kDivide,        // destination = left / world_size
  kReduce,        // destination = left op right
  kReduceDivide,  // destination = (left op right) / world_size
};
// In averages, operands that are inputs are multiplied by a factor (kernels/reduce.h, AverageScaleOf) when they are
// read. So sums are sums of scaled inputs, and kReduceDivide divides them by world_size times that factor.

// A move has whole elements only. The caller must not free or touch the memory until the bytes count as done.
// `destination` may equal `left` or `right`; no other overlap is allowed.
struct Move {
  MoveKind kind = MoveKind::kCopy;
  std::byte* destination = nullptr;
  const std::byte* left = nullptr;
  const std::byte* right = nullptr;  // right operand of kReduce and kReduceDivide
  std::size_t bytes = 0;
  bool left_is_input = false;   // `left` of kReduce or kReduceDivide is one rank's input, not yet reduced
  bool right_is_input = false;  // the same for `right`
  bool past_caches = false;     // kCopy bypasses caches, because the destination is not read soon (kernels/copy.h)
};

// The parameters that all moves of one operation share.
struct MoveContext {
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  double scale = 1.0;
  int world_size = 1;
};

// Thread rule: one thread at a time. A mover belongs to one engine.
class Mover {
 public:
  virtual ~Mover() = default;

  // Begins an operation with streams 0..streams-1, each at 0 bytes done. REQUIRES: no move of the previous operation is
  // under way.
  virtual void Start(const MoveContext& context, std::size_t streams) = 0;
  // Moves of one stream take effect in the order of submission; moves of different streams in any order.
  virtual void Submit(std::uint32_t stream, const Move& move) = 0;
  // The number of bytes that are done, counted from the first byte submitted to the stream. It never decreases.
  virtual std::uint64_t Done(std::uint32_t stream) = 0;
  // Returns when no move touches memory any more. Takes bounded time. For the error path.
  virtual void Drain() = 0;
};

}  // namespace rondo
