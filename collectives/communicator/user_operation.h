// A reduction of the user's own: defined once on a communicator (Communicator::DefineOperation), then used like any
// other ReduceOp.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/dtype.h"

namespace rondo {

inline constexpr std::size_t kMaxUserOperationNameBytes = 64;

struct UserOperation {
  // What ranks compare when they define it, and what errors call it. 1 to kMaxUserOperationNameBytes bytes.
  std::string name;
  // Whether a op b is b op a. An operation that does not commute is served only by algorithms that combine the ranks'
  // contributions in rank order.
  bool commutative = true;
  // output[i] = left[i] op right[i] for 0 <= i < elements, in host memory, each pointer aligned for `type`; `output`
  // may be exactly `left` or `right`. It must be associative, as far as its type allows, give the same bits for the
  // same operands on every rank, and should not throw: where it does the operation fails, kAborted here with what was
  // thrown and kPeerAborted elsewhere, and the communicator with it. Called any number of times per operation, for any
  // stretch of elements, by whichever thread drives, never by two at once for one communicator; it must not call that
  // communicator.
  std::function<void(const void* left, const void* right, void* output, std::size_t elements, DataType type)> combine;
};

}  // namespace rondo
