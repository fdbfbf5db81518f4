// Loads the kernels (kernels/fold.h, kernels/meet.h) into a GPU's context and launches them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "cuda/gpu.h"
#include "cuda/kernels/fold.h"
#include "cuda/kernels/meet.h"

namespace rondo::cuda {

// Thread rule: any thread.
class FoldKernels {
 public:
  // Loads all kernels at once. A driver that loads code at its first launch may wait for the device then, and the
  // device may wait for Rondo. All users of a GPU share one object. kUnsupported: the GPU is older than sm_75, or the
  // driver is older than the kernels.
  static Result<std::shared_ptr<FoldKernels>> Load(std::shared_ptr<const Gpu> gpu);
  ~FoldKernels();
  FoldKernels(const FoldKernels&) = delete;
  FoldKernels& operator=(const FoldKernels&) = delete;

  // Puts the fold on the stream. All memory must stay valid until the stream has executed the fold. This GPU must reach
  // every pointer. With zero elements nothing is put on the stream. kInvalidArgument: CheckPairing refuses the pairing,
  // or the operation is user-defined.
  Status Launch(CUstream stream, DataType type, ReduceOp op, const FoldArguments& arguments);
  // Puts a barrier (kernels/meet.h) on the stream.
  Status Launch(CUstream stream, const MeetArguments& arguments);

 private:
  explicit FoldKernels(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)), driver_(gpu_->driver()) {}
  Status LoadAll();
  Status Load(CUfunction& function, const std::string& name) const;

  const std::shared_ptr<const Gpu> gpu_;
  const Driver& driver_;
  CUmodule module_ = nullptr;
  unsigned most_blocks_ = 0;           // maximum number of blocks of a launch
  std::vector<CUfunction> functions_;  // by type and operation; null: there is no kernel
  CUfunction meet_ = nullptr;
};

}  // namespace rondo::cuda
