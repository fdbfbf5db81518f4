// N ranks as threads, each with a real or a fake GPU, and with a communicator whose operations are captured into
// graphs.
#pragma once

#include <functional>
#include <string>

#include "cuda/cuda.h"
#include "tests/cuda/on_gpu.h"
#include "tests/support/shm_ranks.h"
#include "tests/support/status_text.h"

namespace rondo::cuda {

inline void OnGraphRanks(int world, const std::function<void(Communicator&, OnGpu&, CUstream)>& body,
                         const std::function<void(CommunicatorOptions&)>& adjust = nullptr) {
  if (OnGpu::Find() == nullptr) return;
  test::OnShmRanks({.ranks = world,
                    .adjust =
                        [&](CommunicatorOptions& options) {
                          auto devices = OpenCuda({.driver = LibraryUnderTest()});
                          REQUIRE(devices.has_value());
                          options.device = *std::move(devices);
                          if (adjust) adjust(options);
                        }},
                   [&](Communicator& communicator) {
                     const auto gpu = OnGpu::Find();
                     body(communicator, *gpu, gpu->NewStream());
                   });
}

inline OperationOptions On(CUstream stream) { return {.memory = MemoryKind::kDevice, .stream = stream}; }

// A graph of one all-reduce of 1000 bytes, in place, captured on options.stream.
inline Graph GraphOfSum(Communicator& communicator, const OnGpu& gpu, std::byte* memory,
                        const OperationOptions& options) {
  return Graph(gpu, static_cast<CUstream>(options.stream), [&] {
    CHECK(TextOf(communicator.AllReduce(memory, memory, 1000, DataType::kUint8, ReduceOp::kSum, options)) == "ok");
  });
}

}  // namespace rondo::cuda
