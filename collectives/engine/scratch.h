// The memory in which a plan keeps chunks that belong neither into the input nor into the output. It grows to the
// largest plan seen and stays.
//
// Thread rule: values.
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
  // Gives every range of the plan its place, and makes room. kResource: more than `max_bytes`. kOutOfMemory.
  Status Prepare(const Plan& plan, const BlockGrid& grid, std::uint64_t max_bytes,
                 const OperationDescriptor& operation);
  // Gives the ranges other places. REQUIRES: that takes no more than was prepared.
  void LayOutAgain(const Plan& plan, const BlockGrid& grid);

  // The address of a position of the virtual vector, in a range of the plan; a number, since that of position 0 may be
  // nobody's memory.
  std::uintptr_t AddressOf(std::size_t range, std::uint64_t position) const {
    return reinterpret_cast<std::uintptr_t>(memory_.get()) + shift_[range] + position;
  }

 private:
  std::uint64_t LayOut(const Plan& plan, const BlockGrid& grid);  // returns the bytes that it takes

  std::unique_ptr<std::byte[]> memory_;  // not zeroed: whatever is read was written before
  std::uint64_t bytes_ = 0;
  // By range of the plan: what to add to a position to get its offset in the memory; wraps around.
  std::vector<std::uint64_t> shift_;
};

}  // namespace rondo
