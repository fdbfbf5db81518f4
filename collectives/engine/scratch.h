// The memory for chunks that a plan keeps outside input and output. It grows to the size that the largest operation
// needed and never shrinks.
//
// Thread rule: a plain value; callers synchronize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "collectives/engine/frame.h"
#include "collectives/engine/plan.h"
#include "collectives/schedule/grid.h"

namespace rondo {

class Scratch {
 public:
  // Assigns an offset to every range of the plan, and grows the memory if necessary. kResource: more than `max_bytes`
  // are needed. kOutOfMemory: the memory cannot be allocated.
  Status Prepare(const Plan& plan, const BlockGrid& grid, std::uint64_t max_bytes,
                 const OperationDescriptor& operation);
  // Assigns new offsets for another grid. REQUIRES: the grid needs no more memory than Prepare allocated.
  void LayOutAgain(const Plan& plan, const BlockGrid& grid);

  // Returns the address of a position (grid.h) in a range of the plan. The result is an integer, because the address of
  // position 0 may be outside the memory.
  std::uintptr_t AddressOf(std::size_t range, std::uint64_t position) const {
    return reinterpret_cast<std::uintptr_t>(memory_.get()) + shift_[range] + position;
  }

 private:
  std::uint64_t LayOut(const Plan& plan, const BlockGrid& grid);  // returns the bytes that the ranges need

  std::unique_ptr<std::byte[]> memory_;  // not zeroed: every byte is written before it is read
  std::uint64_t bytes_ = 0;
  // For each range of the plan, the number to add to a position to get the offset in the memory. The sum may wrap
  // around.
  std::vector<std::uint64_t> shift_;
};

}  // namespace rondo
