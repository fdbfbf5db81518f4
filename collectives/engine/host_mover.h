// The mover for host memory. Submit computes the result on the calling thread before it returns. The mover allocates
// only when an operation has more streams than any operation before.
#pragma once

#include <vector>

#include "collectives/engine/mover.h"
#include "collectives/kernels/reduce.h"

namespace rondo {

class HostMover final : public Mover {
 public:
  void Start(const MoveContext& context, std::size_t streams) override;
  void Submit(std::uint32_t stream, const Move& move) override;
  std::uint64_t Done(std::uint32_t stream) override { return done_[stream]; }
  void Drain() override {}

 private:
  MoveContext context_;
  std::size_t element_bytes_ = 1;
  ReduceFunction reduce_ = nullptr;
  ScaleFactors FactorsOf(const Move& move) const {
    return {move.left_is_input ? scale_ : 1.0, move.right_is_input ? scale_ : 1.0};
  }
  double scale_ = 1.0;  // factor by which the inputs of an average are multiplied
  std::vector<std::uint64_t> done_;
};

}  // namespace rondo
