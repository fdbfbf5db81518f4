// The kernels of fold.h, one for each pairing of type and operation: rondo_fold_float32_sum, ... They stand in a
// fatbin, which carries code for every architecture from sm_75 on and PTX for those to come, and are found there by
// name.
#include "cuda/kernels/fold.h"

#define RONDO_FOLD_KERNEL(type, op, Element, kOp)                                              \
  extern "C" __global__ void __launch_bounds__(512)                                            \
      rondo_fold_##type##_##op(const __grid_constant__ rondo::cuda::FoldArguments arguments) { \
    rondo::cuda::FoldPart<rondo::cuda::Fold<Element, kOp>>(                                    \
        arguments, static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x,          \
        static_cast<std::uint64_t>(gridDim.x) * blockDim.x);                                   \
  }

RONDO_FOLDS(RONDO_FOLD_KERNEL)
