// Compares the kernels with a plain memcpy. If memory is the bottleneck, a reduction should take no longer than its
// memory traffic.
//
//   bazel run --config=release //tests/benchmarks:kernels_benchmark -- --benchmark_filter=float32
//
// Names are kernel/type/operation/bytes, where `bytes` is the size of one buffer. bytes_per_second also counts one
// buffer per call. memcpy moves two streams (it reads one and writes one). A reduction in place moves three streams (it
// reads two and overwrites one of them).
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "collectives/kernels/copy.h"
#include "collectives/kernels/reduce.h"

namespace rondo {
namespace {

constexpr std::int64_t kSmallBytes = 16 << 10;    // two buffers of this size fit into the first-level cache
constexpr std::int64_t kMiddleBytes = 512 << 10;  // buffers of this size fit into the second-level cache
constexpr std::int64_t kLargeBytes = 64 << 20;    // buffers of this size fit only into main memory

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (std::int64_t bytes : {std::int64_t{64}, kSmallBytes, kMiddleBytes, kLargeBytes}) benchmark->Arg(bytes);
}

// Ordinary values of the type. Subnormals and NaNs would make the kernels slow, and only tests need them.
std::vector<std::byte> Ones(DataType type, std::size_t bytes) {
  std::vector<std::byte> memory(bytes, std::byte{1});
  if (type == DataType::kFloat16 || type == DataType::kBfloat16 || type == DataType::kFloat32 ||
      type == DataType::kFloat64)
    // Each element is near 1, or smaller by a few powers of ten, in every type.
    std::memset(memory.data(), 0x3C, bytes);
  return memory;
}

void Report(benchmark::State& state) { state.SetBytesProcessed(state.iterations() * state.range(0)); }

void Copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> source = Ones(DataType::kUint8, bytes);
  std::vector<std::byte> destination(bytes);
  for (auto _ : state) {
    std::memcpy(destination.data(), source.data(), bytes);
    benchmark::ClobberMemory();
  }
  Report(state);
}

void CopyPast(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> source = Ones(DataType::kUint8, bytes);
  std::vector<std::byte> destination(bytes);
  for (auto _ : state) {
    CopyPastCaches(destination.data(), source.data(), bytes);
    benchmark::ClobberMemory();
  }
  Report(state);
}

void Reduce(benchmark::State& state, DataType type, ReduceOp op) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> right = Ones(type, bytes);
  std::vector<std::byte> left(bytes);
  const ReduceFunction reduce = FindReduce(type, op);
  for (auto _ : state) {
    reduce(left.data(), left.data(), right.data(), bytes / SizeOf(type));
    benchmark::ClobberMemory();
  }
  Report(state);
}

void ReduceApart(benchmark::State& state, DataType type, ReduceOp op) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> left = Ones(type, bytes);
  const std::vector<std::byte> right = Ones(type, bytes);
  std::vector<std::byte> destination(bytes);
  const ReduceFunction reduce = FindReduce(type, op);
  for (auto _ : state) {
    reduce(destination.data(), left.data(), right.data(), bytes / SizeOf(type));
    benchmark::ClobberMemory();
  }
  Report(state);
}

void Average(benchmark::State& state, DataType type) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> right = Ones(type, bytes);
  std::vector<std::byte> left(bytes);
  for (auto _ : state) {
    SumAndDivide(left.data(), left.data(), right.data(), bytes / SizeOf(type), type, 3);
    benchmark::ClobberMemory();
  }
  Report(state);
}

void Scaled(benchmark::State& state, DataType type) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> source = Ones(type, bytes);
  std::vector<std::byte> destination(bytes);
  for (auto _ : state) {
    Scale(destination.data(), source.data(), bytes / SizeOf(type), type, 0.5);
    benchmark::ClobberMemory();
  }
  Report(state);
}

void RegisterAll() {
  benchmark::RegisterBenchmark("memcpy", Copy)->Apply(Sizes);
  benchmark::RegisterBenchmark("copy_past_caches", CopyPast)->Apply(Sizes);
  for (DataType type : kAllDataTypes) {
    const std::string name(Name(type));
    for (ReduceOp op : kAllReduceOps) {
      if (!CheckPairing(type, op) || op == ReduceOp::kAvg || op == ReduceOp::kPremulSum) continue;
      benchmark::RegisterBenchmark(("reduce_in_place/" + name + "/" + std::string(Name(op))).c_str(), Reduce, type, op)
          ->Apply(Sizes);
    }
    if (CheckPairing(type, ReduceOp::kSum))
      benchmark::RegisterBenchmark(("reduce_apart/" + name + "/sum").c_str(), ReduceApart, type, ReduceOp::kSum)
          ->Apply(Sizes);
    if (CheckPairing(type, ReduceOp::kAvg))
      benchmark::RegisterBenchmark(("sum_and_divide/" + name).c_str(), Average, type)->Apply(Sizes);
    if (IsFloating(type)) benchmark::RegisterBenchmark(("scale/" + name).c_str(), Scaled, type)->Apply(Sizes);
  }
}

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  rondo::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
