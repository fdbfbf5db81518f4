// Loads the kernels (kernels/reduce.h, kernels/barrier.h) into a GPU's context and launches them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "cuda/gpu.h"
#include "cuda/kernels/barrier.h"
#include "cuda/kernels/reduce.h"

namespace rondo::cuda {

// Thread rule: any thread.
class ReduceKernels {
 public:
  // Loads all kernels at once. Otherwise the driver could load a kernel's code at its first launch and wait for the
  // device, while the device waits for Rondo. All users of a GPU share one object. kUnsupported: the GPU is older than
  // sm_75, or the driver is older than the kernels.
  static Result<std::shared_ptr<ReduceKernels>> Load(std::shared_ptr<const Gpu> gpu);
  ~ReduceKernels();
  ReduceKernels(const ReduceKernels&) = delete;
  ReduceKernels& operator=(const ReduceKernels&) = delete;

  // Puts the reduction on the stream. All memory must stay valid until the stream has executed the reduction. This GPU
  // must reach every pointer. With zero elements nothing is put on the stream. kInvalidArgument: CheckPairing refuses
  // the pairing, or the operation is user-defined.
  Status Launch(CUstream stream, DataType type, ReduceOp op, const ReduceArguments& arguments);
  // Puts a barrier (kernels/barrier.h) on the stream.
  Status Launch(CUstream stream, const BarrierArguments& arguments);

 private:
  explicit ReduceKernels(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)), driver_(gpu_->driver()) {}
  Status LoadAll();
  Status Load(CUfunction& function, const std::string& name) const;

  const std::shared_ptr<const Gpu> gpu_;
  const Driver& driver_;
  CUmodule module_ = nullptr;
  unsigned most_blocks_ = 0;           // maximum number of blocks of a launch
  std::vector<CUfunction> functions_;  // by type and operation; null: there is no kernel
  CUfunction barrier_ = nullptr;
};

}  // namespace rondo::cuda
