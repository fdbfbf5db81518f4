// Reductions on a GPU: for every type and operation the result is bit for bit that of the host's kernels.
#include "cuda/reduce_kernels.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "base/random.h"
#include "tests/cuda/on_gpu.h"
#include "tests/kernels/reference.h"
#include "tests/support/host_fold.h"

namespace rondo::cuda {
namespace reduce_kernels_test {

using Memory = std::vector<std::byte>;

// Reduces `count` vectors of random values on the GPU. Returns whether the result is bit for bit that of the host's
// kernel.
bool IsTheHosts(OnGpu& gpu, ReduceKernels& kernels, CUstream stream, DataType type, ReduceOp op, std::size_t elements,
                std::size_t count, std::size_t misalignment = 0) {
  Random random(elements + count);
  const std::size_t bytes = elements * SizeOf(type);
  ReduceArguments arguments;
  arguments.elements = elements;
  arguments.count = static_cast<std::int32_t>(count);
  arguments.divisor = static_cast<std::int32_t>(count);
  std::vector<Memory> sources;
  std::byte* const memory = gpu.Allocate((bytes + 256) * (count + 1));
  for (std::size_t s = 0; s < count; ++s) {
    sources.push_back(reference::Pack(type, reference::AnyValues(type, elements, random)));
    std::byte* const there = memory + (bytes / 256 + 1) * 256 * s + misalignment;
    gpu.Write(there, sources.back().data(), bytes);
    arguments.sources[s] = there;
    arguments.scales[s] = 0.75 - static_cast<double>(s);
  }
  arguments.destination = const_cast<std::byte*>(arguments.sources[0]);  // the reduction is in place
  const Status launched = kernels.Launch(stream, type, op, arguments);
  INFO((launched ? std::string() : launched.error().ToString()));
  REQUIRE(launched.has_value());
  gpu.Synchronize(stream);
  return gpu.Values<std::byte>(arguments.destination, bytes) ==
         FoldOnHost(type, op, sources, elements, arguments.scales, op == ReduceOp::kAvg ? arguments.divisor : 0);
}

TEST_CASE("Every type and operation has the host's bits, of two vectors and of five") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  auto kernels = ReduceKernels::Load(gpu->gpu());
  REQUIRE(kernels.has_value());
  CUstream stream = gpu->NewStream();
  for (const DataType type : kAllDataTypes)
    for (const ReduceOp op : kAllReduceOps)
      for (const std::size_t count : {2u, 5u}) {
        if (!CheckPairing(type, op)) continue;
        CAPTURE(Name(type));
        CAPTURE(Name(op));
        CAPTURE(count);
        CHECK(IsTheHosts(*gpu, **kernels, stream, type, op, 3001, count));
      }
}

TEST_CASE("Vectors of every length, and beside the lines of memory") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  auto kernels = ReduceKernels::Load(gpu->gpu());
  REQUIRE(kernels.has_value());
  CUstream stream = gpu->NewStream();
  for (const DataType type : {DataType::kUint8, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64})
    for (const std::size_t elements : {0u, 1u, 15u, 16u, 17u, 1000u, 40'000u})
      for (const std::size_t misalignment : {0u, 1u, 8u, 16u}) {
        CAPTURE(Name(type));
        CAPTURE(elements);
        CAPTURE(misalignment);
        CHECK(IsTheHosts(*gpu, **kernels, stream, type, ReduceOp::kSum, elements, 3, misalignment));
      }
}

TEST_CASE("What has no kernel is refused") {
  const auto gpu = OnGpu::Find();
  if (gpu == nullptr) return;
  auto kernels = ReduceKernels::Load(gpu->gpu());
  REQUIRE(kernels.has_value());
  ReduceArguments arguments;
  arguments.count = 2;
  for (const auto& [type, op] : {std::pair(DataType::kBool, ReduceOp::kSum), std::pair(DataType::kInt32, UserOp(0))}) {
    const Status refused = (*kernels)->Launch(nullptr, type, op, arguments);
    REQUIRE(!refused.has_value());
    CHECK(refused.error().code() == ErrorCode::kInvalidArgument);
  }
}

}  // namespace reduce_kernels_test
}  // namespace rondo::cuda
