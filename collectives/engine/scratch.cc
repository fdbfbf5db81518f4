#include "collectives/engine/scratch.h"

#include <algorithm>
#include <new>

#include "base/check.h"

namespace rondo {

std::uint64_t Scratch::LayOut(const Plan& plan, const BlockGrid& grid) {
  shift_.resize(std::max(shift_.size(), plan.scratch.size()));
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < plan.scratch.size(); ++i) {
    const std::uint64_t begin = grid.BeginByte(plan.scratch[i].first);
    shift_[i] = bytes - begin;
    bytes += grid.BeginByte(plan.scratch[i].end()) - begin;
  }
  return bytes;
}

void Scratch::LayOutAgain(const Plan& plan, const BlockGrid& grid) {
  const std::uint64_t bytes = LayOut(plan, grid);
  RONDO_CHECK(bytes <= bytes_, "{} bytes of scratch, {} are there", bytes, bytes_);
}

Status Scratch::Prepare(const Plan& plan, const BlockGrid& grid, std::uint64_t max_bytes,
                        const OperationDescriptor& operation) {
  const std::uint64_t bytes = LayOut(plan, grid);
  if (bytes <= bytes_) return {};
  if (bytes > max_bytes)
    return Fail(ErrorCode::kResource, "{} needs {} bytes of scratch memory; the limit (max_scratch_bytes) is {}",
                operation.ToString(), bytes, max_bytes);
  bytes_ = 0;
  memory_.reset(new (std::nothrow) std::byte[bytes]);
  if (memory_ == nullptr)
    return Fail(ErrorCode::kOutOfMemory, "no memory for the {} bytes of scratch memory that {} needs", bytes,
                operation.ToString());
  bytes_ = bytes;
  return {};
}

}  // namespace rondo
