// Copying and reducing go through a Mover: submit, then a count of bytes that may lag. The host's mover computes at
// once. The one that copies from memory of a device works by events, and that of the tests late and in pieces.
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
// Averages scale each operand that is an input on its way (kernels/reduce.h, AverageScaleOf): kReduce is then the sum
// of scaled operands, and kReduceDivide divides by the scaled world_size.

// Whole elements only. Memory is lent until the bytes count as done; destination may be left or right, no other
// overlap.
struct Move {
  MoveKind kind = MoveKind::kCopy;
  std::byte* destination = nullptr;
  const std::byte* left = nullptr;
  const std::byte* right = nullptr;  // of kReduce, kReduceDivide
  std::size_t bytes = 0;
  bool left_is_input = false;   // of kReduce, kReduceDivide: a rank brought it so, and nothing is combined into it yet
  bool right_is_input = false;  // likewise
  bool past_caches = false;     // of kCopy: nobody reads the destination soon (kernels/copy.h)
};

// What all moves of one operation share.
struct MoveContext {
  DataType type = DataType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  double scale = 1.0;
  int world_size = 1;
};

// Thread rule: one thread at a time. A mover serves one engine.
class Mover {
 public:
  virtual ~Mover() = default;

  // A new operation with streams 0..streams-1, all at 0 bytes done. REQUIRES: nothing of the last one is under way.
  virtual void Start(const MoveContext& context, std::size_t streams) = 0;
  // Moves of one stream take effect in the order of submission; those of different streams in any order.
  virtual void Submit(std::uint32_t stream, const Move& move) = 0;
  // The stream's bytes whose result is in place, from the front of what was submitted; monotonic.
  virtual std::uint64_t Done(std::uint32_t stream) = 0;
  // Returns once nothing touches any memory any more. Bounded time; for the error path.
  virtual void Drain() = 0;
};

}  // namespace rondo
