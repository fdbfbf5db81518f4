// The kernels: those of reduce.h, one for each pairing of type and operation (rondo_device_reduce_float32_sum, ...),
// and that of barrier.h (rondo_device_barrier). They are compiled into a fatbin, with code for every architecture from
// sm_75 on and PTX for future ones, and are looked up there by name.
#include "cuda/kernels/barrier.h"
#include "cuda/kernels/reduce.h"

namespace rondo::cuda {

// The minimum number of blocks per multiprocessor for which a kernel is compiled; 0: the compiler decides. For minimum
// and maximum of 16-bit floats it would decide to use only 40 registers, and so would load one vector after the other.
template <class F>
constexpr int kBlocks = ByWord<F>::kHalves && ByWord<F>::kExtreme ? 2 : 0;

}  // namespace rondo::cuda

#define RONDO_REDUCE_KERNEL(type, op, Element, kOp)                                                               \
  extern "C" __global__ void __launch_bounds__(512, (rondo::cuda::kBlocks<rondo::cuda::Reduction<Element, kOp>>)) \
      rondo_device_reduce_##type##_##op(const __grid_constant__ rondo::cuda::ReduceArguments arguments) {         \
    rondo::cuda::ReducePart<rondo::cuda::Reduction<Element, kOp>>(                                                \
        arguments, static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x,                             \
        static_cast<std::uint64_t>(gridDim.x) * blockDim.x);                                                      \
  }

RONDO_REDUCTIONS(RONDO_REDUCE_KERNEL)

// One block, with at least one thread for each rank.
extern "C" __global__ void __launch_bounds__(32)
    rondo_device_barrier(const __grid_constant__ rondo::cuda::BarrierArguments arguments) {
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) barrier = rondo::cuda::BeginBarrier(arguments);
  __syncthreads();
  if (barrier == 0) return;
  const auto peer = static_cast<std::int32_t>(threadIdx.x);
  rondo::cuda::Arrive(arguments, peer, barrier);
  __syncthreads();  // all threads signal their peers before any thread waits
  rondo::cuda::Await(arguments, peer, barrier);
  __syncthreads();
  rondo::cuda::TakeBack(arguments, peer);
  __syncthreads();
  if (threadIdx.x == 0) rondo::cuda::EndBarrier(arguments);
}
