// Measures how much time fusion saves: many small tensors are all-reduced one by one, or through a FusionBuffer. The
// two ranks are threads of one process. They use loopback sockets or shared memory.
//
//   bazel run --config=release //tests/benchmarks:fusion_benchmark
//
// one_by_one waits for each tensor; one_by_one_async waits for all tensors at the end.
#include <benchmark/benchmark.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "collectives/connect.h"
#include "collectives/fusion_buffer.h"
#include "rendezvous/memory_store.h"

namespace rondo {
namespace {

// The tensors of one rank and the communicator that reduces them.
struct Tensors {
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<FusionBuffer> fusion;
  std::vector<std::vector<float>> tensors;
};

using Step = void (*)(Tensors& rank);

void OneByOne(Tensors& rank) {
  for (std::vector<float>& t : rank.tensors)
    RONDO_CHECK(rank.communicator->AllReduce(t.data(), t.data(), t.size(), DataType::kFloat32, ReduceOp::kAvg));
}

void OneByOneAsync(Tensors& rank) {
  Work last;
  for (std::vector<float>& t : rank.tensors)
    last = rank.communicator->AllReduceAsync(t.data(), t.data(), t.size(), DataType::kFloat32, ReduceOp::kAvg);
  RONDO_CHECK(last.Wait());
}

void Fused(Tensors& rank) {
  for (std::vector<float>& t : rank.tensors)
    RONDO_CHECK(rank.fusion->Add(t.data(), t.data(), t.size(), DataType::kFloat32, ReduceOp::kAvg));
  RONDO_CHECK(rank.fusion->Wait());
}

Tensors ConnectRank(const std::shared_ptr<Store>& store, Path path, Rank rank, const benchmark::State& state) {
  Tensors made;
  auto communicator = Connect({.store = store, .rank = rank, .world_size = 2, .path = path});
  RONDO_CHECK(communicator, "{}", communicator.error().ToString());
  made.communicator = std::move(*communicator);
  auto fusion = FusionBuffer::Create(*made.communicator);
  RONDO_CHECK(fusion);
  made.fusion = std::move(*fusion);
  made.tensors.assign(static_cast<std::size_t>(state.range(0)),
                      std::vector<float>(static_cast<std::size_t>(state.range(1)) / sizeof(float), 1));
  return made;
}

void Run(benchmark::State& state, Path path, Step step) {
  const auto store = std::make_shared<MemoryStore>();
  // Rank 1 continues until rank 0 has reported the last step.
  std::thread other([&] {
    Tensors own = ConnectRank(store, path, 1, state);
    for (std::int32_t go_on = 1; go_on != 0;) {
      step(own);
      RONDO_CHECK(own.communicator->Broadcast(&go_on, &go_on, 1, DataType::kInt32, 0));
    }
    RONDO_CHECK(own.communicator->Close());
  });
  Tensors own = ConnectRank(store, path, 0, state);
  std::int32_t go_on = 1;
  const auto together = [&] {
    step(own);
    RONDO_CHECK(own.communicator->Broadcast(&go_on, &go_on, 1, DataType::kInt32, 0));
  };
  for (auto _ : state) together();
  go_on = 0;
  together();
  RONDO_CHECK(own.communicator->Close());
  other.join();
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0) * state.range(1));
}

void Arguments(benchmark::internal::Benchmark* one) {
  for (const std::int64_t bytes : {64, 1024, 16384}) one->Args({1000, bytes});
  one->ArgNames({"tensors", "bytes"})->Unit(benchmark::kMicrosecond)->UseRealTime();
}
BENCHMARK_CAPTURE(Run, tcp_one_by_one, Path::kTcp, OneByOne)->Apply(Arguments);
BENCHMARK_CAPTURE(Run, tcp_one_by_one_async, Path::kTcp, OneByOneAsync)->Apply(Arguments);
BENCHMARK_CAPTURE(Run, tcp_fused, Path::kTcp, Fused)->Apply(Arguments);
BENCHMARK_CAPTURE(Run, shm_one_by_one, Path::kShm, OneByOne)->Apply(Arguments);
BENCHMARK_CAPTURE(Run, shm_one_by_one_async, Path::kShm, OneByOneAsync)->Apply(Arguments);
BENCHMARK_CAPTURE(Run, shm_fused, Path::kShm, Fused)->Apply(Arguments);

}  // namespace
}  // namespace rondo

BENCHMARK_MAIN();
