// Measures the bandwidth of a GPU's memory, and how much of it reductions reach. Prints lines such as
//
//   copy 256 MiB: 2310.5 GB/s
//   float32 sum of 2: 2280.1 GB/s, 0.99 of a copy
//
// Every byte that is read or written counts. Each line shows the best of several rounds, timed by the GPU.
//
//   gpu_bandwidth [--mib N] [--driver LIBRARY]
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "cuda/reduce_kernels.h"
#include "cuda/session.h"

namespace rondo::cuda {
namespace {

constexpr int kRounds = 10;

template <typename T>
T Must(Result<T> result) {
  if (result) return *std::move(result);
  fmt::print(stderr, "gpu_bandwidth: {}\n", result.error().message());
  std::exit(1);
}
void Must(const Status& status) {
  if (status) return;
  fmt::print(stderr, "gpu_bandwidth: {}\n", status.error().message());
  std::exit(1);
}

double BestUs(CudaSession& session, const std::function<void()>& work) {
  double best = 1e30;
  for (int i = 0; i < kRounds; ++i) {
    Must(session.Begin());
    work();
    Must(session.End());
    best = std::min(best, Must(session.TookUs()));
  }
  return best;
}

// Fills the memory with random bits, because divisions of zeros would be faster than those of other values.
void Fill(const Gpu& gpu, CUstream stream, std::byte* memory, std::size_t bytes) {
  const Gpu::Use use(gpu);
  std::vector<std::uint64_t> values(std::min<std::size_t>(bytes, 1 << 20) / sizeof(std::uint64_t));
  Random random(1);
  for (std::uint64_t& value : values) value = random.Next();
  const std::size_t some = values.size() * sizeof(std::uint64_t);
  for (std::size_t done = 0; done < bytes; done += some)
    Must(gpu.driver().Check(gpu.driver().MemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(memory + done), values.data(),
                                                         std::min(some, bytes - done), stream),
                            "filling memory"));
  Must(gpu.driver().Check(gpu.driver().StreamSynchronize(stream), "filling memory"));
}

void Run(std::size_t bytes, const std::string& library) {
  const auto session = Must(OpenCudaSession(0, {.driver = library}));
  const Driver driver = Must(LoadDriver(library));
  const auto gpu = Must(Gpu::Open(driver, 0));
  const auto kernels = Must(ReduceKernels::Load(gpu));
  auto* const stream = static_cast<CUstream>(session->stream());
  fmt::print("{}\n", session->gpu());
  std::vector<std::unique_ptr<CudaMemory>> memory;
  for (int i = 0; i < 5; ++i) memory.push_back(Must(session->Allocate(bytes)));
  const auto at = [&](std::size_t i) { return memory[i]->address(); };
  for (const auto& each : memory) Fill(*gpu, stream, each->address(), bytes);

  const double copy_us = BestUs(*session, [&] {
    const Gpu::Use use(*gpu);
    Must(driver.Check(driver.MemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(at(0)), reinterpret_cast<CUdeviceptr>(at(1)),
                                             bytes, stream),
                      "copying"));
  });
  const double copy = 2.0 * static_cast<double>(bytes) / copy_us / 1e3;
  fmt::print("copy {} MiB: {:.1f} GB/s\n", bytes >> 20, copy);
  for (const DataType type : kAllDataTypes)
    for (const ReduceOp op : kAllReduceOps)
      for (const std::size_t count : {2u, 4u}) {
        if (!CheckPairing(type, op)) continue;
        ReduceArguments arguments;
        arguments.destination = at(0);
        arguments.count = static_cast<std::int32_t>(count);
        arguments.divisor = arguments.count;
        arguments.elements = bytes / SizeOf(type);
        for (std::size_t i = 0; i < count; ++i) {
          arguments.sources[i] = at(i + 1);
          arguments.scales[i] = 1;
        }
        const double us = BestUs(*session, [&] { Must(kernels->Launch(stream, type, op, arguments)); });
        const double gbps = static_cast<double>((count + 1) * bytes) / us / 1e3;
        fmt::print("{} {} of {}: {:.1f} GB/s, {:.2f} of a copy\n", Name(type), Name(op), count, gbps, gbps / copy);
      }
}

}  // namespace
}  // namespace rondo::cuda

int main(int argc, char** argv) {
  std::size_t mib = 256;
  std::string library;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    if (flag == "--mib") mib = std::strtoull(argv[i + 1], nullptr, 10);
    if (flag == "--driver") library = argv[i + 1];
  }
  rondo::cuda::Run(std::max<std::size_t>(mib, 1) << 20, library);
  return 0;
}
