// Memory for elements that are reduced in a wider type than the user's (base/dtype.h). They are widened into this
// memory before the operation, and narrowed into the user's memory when the operation has ended. So results in 16-bit
// floats are rounded only once. For averages see AverageTypeOf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "base/result.h"
#include "collectives/engine/engine.h"

namespace rondo {

// Thread rule: one thread at a time. The memory grows to fit the largest operation, and is then kept.
class WidenedBuffer {
 public:
  explicit WidenedBuffer(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Widens `elements` of `type` into this object's memory, and returns buffers for the reduction in the wider type,
  // which are valid until End. If `in_place` is true, the memory is the output of the reduction, otherwise its input;
  // the other pointer is null. kResource: more than max_bytes are needed. Also kOutOfMemory.
  Result<OperationBuffers> Begin(const void* input, std::uint64_t elements, DataType type, bool in_place);
  // Narrows `elements` elements of this object's memory, beginning at element `first`, into `output`.
  void End(void* output, std::uint64_t first, std::uint64_t elements, DataType type) const;

 private:
  std::uint64_t max_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::uint64_t bytes_ = 0;
};

}  // namespace rondo
