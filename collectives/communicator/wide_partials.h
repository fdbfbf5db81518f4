// Elements that are reduced in their wider type (base/dtype.h): widened into memory of our own before the operation,
// and narrowed from there to the user's when it has ended. 16-bit floats are rounded once so; of averages see
// AverageTypeOf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"
#include "base/result.h"
#include "collectives/engine/engine.h"

namespace rondo {

// Thread rule: one thread at a time. Memory grows to the largest operation and stays.
class WidePartials {
 public:
  explicit WidePartials(std::uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Takes `elements` of `type` in, and gives the memory in which reductions of the wider type run until End: as the
  // output alone in place, else as the input alone. kResource beyond max_bytes, kOutOfMemory.
  Result<OperationBuffers> Begin(const void* input, std::uint64_t elements, DataType type, bool in_place);
  // Puts `elements` from `first` on out.
  void End(void* output, std::uint64_t first, std::uint64_t elements, DataType type) const;

 private:
  std::uint64_t max_bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::uint64_t bytes_ = 0;
};

}  // namespace rondo
