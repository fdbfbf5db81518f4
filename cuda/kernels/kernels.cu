// The kernels: those of fold.h, one for each pairing of type and operation (rondo_fold_float32_sum, ...), and that of
// meet.h (rondo_meet). They are compiled into a fatbin, with code for every architecture from sm_75 on and PTX for
// future ones, and are looked up there by name.
#include "cuda/kernels/fold.h"
#include "cuda/kernels/meet.h"

namespace rondo::cuda {

// The minimum number of blocks of a kernel on a multiprocessor; 0: the compiler decides. For minimum and maximum of
// 16-bit floats the compiler would use only 40 registers, and so load one vector after the other.
template <class F>
constexpr int kBlocks = ByWord<F>::kHalves && ByWord<F>::kExtreme ? 2 : 0;

}  // namespace rondo::cuda

#define RONDO_FOLD_KERNEL(type, op, Element, kOp)                                              \
  extern "C" __global__ void __launch_bounds__(512, (rondo::cuda::kBlocks<rondo::cuda::Fold<Element, kOp>>)) \
      rondo_fold_##type##_##op(const __grid_constant__ rondo::cuda::FoldArguments arguments) { \
    rondo::cuda::FoldPart<rondo::cuda::Fold<Element, kOp>>(                                    \
        arguments, static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x,          \
        static_cast<std::uint64_t>(gridDim.x) * blockDim.x);                                   \
  }

RONDO_FOLDS(RONDO_FOLD_KERNEL)

// One block, with at least one thread for each rank.
extern "C" __global__ void __launch_bounds__(32)
    rondo_meet(const __grid_constant__ rondo::cuda::MeetArguments arguments) {
  __shared__ std::uint64_t meeting;
  if (threadIdx.x == 0) meeting = rondo::cuda::BeginMeeting(arguments);
  __syncthreads();
  if (meeting == 0) return;
  const auto peer = static_cast<std::int32_t>(threadIdx.x);
  rondo::cuda::Arrive(arguments, peer, meeting);
  __syncthreads();  // all threads signal their peers before any thread waits
  rondo::cuda::Await(arguments, peer, meeting);
  __syncthreads();
  rondo::cuda::TakeBack(arguments, peer);
  __syncthreads();
  if (threadIdx.x == 0) rondo::cuda::EndMeeting(arguments);
}
