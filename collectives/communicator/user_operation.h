// A reduction operation with a function of the user: defined once on a communicator (Communicator::DefineOperation),
// then used like any other ReduceOp.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/dtype.h"

namespace rondo {

inline constexpr std::size_t kMaxUserOperationNameBytes = 64;

struct UserOperation {
  // A name of 1 to kMaxUserOperationNameBytes bytes. Ranks compare it when they define the operation, and errors
  // contain it.
  std::string name;
  // Whether a op b equals b op a. If it does not, only algorithms that combine the ranks' contributions in rank order
  // are used.
  bool commutative = true;
  // Computes output[i] = left[i] op right[i] for 0 <= i < elements, in host memory, with each pointer aligned for
  // `type`. `output` may be exactly `left` or `right`. The operation must be associative, as far as its type allows,
  // and must give the same bits for the same operands on every rank.
  //
  // The function should not throw. If it does, the operation and its communicator fail: with kAborted and the
  // exception's text on this rank, with kPeerAborted on other ranks.
  //
  // The function is called any number of times per operation, for any range of elements. Any thread that advances the
  // communicator may call it, but for one communicator never two threads at once. The function must not call that
  // communicator.
  std::function<void(const void* left, const void* right, void* output, std::size_t elements, DataType type)> combine;
};

}  // namespace rondo
