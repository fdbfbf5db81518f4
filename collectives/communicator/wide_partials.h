// Elements that are reduced in their wider type (base/dtype.h): they are widened into memory of this class before the
// operation, and narrowed into the user's memory when the operation has ended. So results in 16-bit floats are rounded
// only once. For averages see AverageTypeOf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "base/result.h"
#include "collectives/engine/engine.h"

namespace rondo {

// Thread rule: one thread at a time. The memory grows to fit the largest operation, and is then kept.
class WidePartials {
 public:
  explicit WidePartials(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Widens `elements` of `type`, and returns the memory in which the wider type is reduced until End: if `in_place` as
  // the output, otherwise as the input; the other pointer is null. kResource beyond max_bytes, kOutOfMemory.
  Result<OperationBuffers> Begin(const void* input, std::uint64_t elements, DataType type, bool in_place);
  // Narrows `elements`, beginning at element `first`, into `output`.
  void End(void* output, std::uint64_t first, std::uint64_t elements, DataType type) const;

 private:
  std::uint64_t max_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::uint64_t bytes_ = 0;
};

}  // namespace rondo
