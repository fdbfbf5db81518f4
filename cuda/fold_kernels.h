// The kernels of a GPU (kernels/fold.h, kernels/meet.h), loaded into its context and launched.
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
  // All of them: a driver that loads code when it is first launched may first wait for the device, and that for us.
  // Once for all who have them at a time. kUnsupported: the GPU is older than sm_75, or the driver than the kernels.
  static Result<std::shared_ptr<FoldKernels>> Load(std::shared_ptr<const Gpu> gpu);
  ~FoldKernels();
  FoldKernels(const FoldKernels&) = delete;
  FoldKernels& operator=(const FoldKernels&) = delete;

  // Puts the fold on the stream. All memory is lent until the stream has passed it; every pointer is one that this GPU
  // reaches. Zero elements put nothing there. kInvalidArgument: CheckPairing refuses the pairing, or the operation is a
  // user's.
  Status Launch(CUstream stream, DataType type, ReduceOp op, const FoldArguments& arguments);
  // Puts a meeting on the stream.
  Status Launch(CUstream stream, const MeetArguments& arguments);

 private:
  explicit FoldKernels(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)), driver_(gpu_->driver()) {}
  Status LoadAll();
  Status Load(CUfunction& function, const std::string& name) const;

  const std::shared_ptr<const Gpu> gpu_;
  const Driver& driver_;
  CUmodule module_ = nullptr;
  unsigned most_blocks_ = 0;           // that run side by side
  std::vector<CUfunction> functions_;  // by type and operation; null: there is none
  CUfunction meet_ = nullptr;
};

}  // namespace rondo::cuda
