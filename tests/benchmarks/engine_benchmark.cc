// Measures the cost of a step of the engine alone. A null transport accepts all bytes at no cost, and returns frames
// that were made in advance.
//
//   bazel run --config=release //tests/benchmarks:engine_benchmark
//
// Prints nanoseconds per step (goal: under 50) for the schedules of one rank and a vector of one float32. It also
// prints how many bytes of the vector two engines reduce per second, with checksums (1) and without (0). These engines
// run in one thread and use the in-process transport.
#include <benchmark/benchmark.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "base/crc32c.h"
#include "collectives/algorithms/table.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/host_mover.h"
#include "collectives/schedule/grid.h"
#include "transport/inproc/inproc.h"

namespace rondo {
namespace {

// Accepts all bytes at no cost. The arriving frames are made when the operation is planned. Only the sequence number
// and the stream offset are set when the engine reads the frames.
class NullLane final : public Lane {
 public:
  explicit NullLane(Rank peer) : peer_(peer) {}

  // The bytes that one operation receives on this lane.
  std::vector<std::byte> incoming;
  Sequence sequence = 0;

  Rank peer() const override { return peer_; }
  LaneState state() const override { return LaneState::kOpen; }
  const Error* failure() const override { return nullptr; }
  std::size_t Write(std::span<const Bytes> pieces) override {
    std::size_t bytes = 0;
    for (const Bytes piece : pieces) bytes += piece.size();
    accepted_ += bytes;
    return bytes;
  }
  std::uint64_t accepted() const override { return accepted_; }
  std::uint64_t released() const override { return accepted_; }
  Arrived Peek(std::size_t) override {
    const std::size_t at = consumed_ % incoming.size();
    // True if a header begins here: headers begin with 'R', and the payload is all zero.
    if (incoming[at] == std::byte{'R'}) {
      StoreLittle<std::uint64_t>(incoming.data() + at + 8, consumed_);
      StoreLittle<std::uint64_t>(incoming.data() + at + 32, sequence);
    }
    return {Bytes(incoming).subspan(at), {}};
  }
  void Consume(std::size_t bytes) override { consumed_ += bytes; }
  std::size_t ReadInto(MutableBytes destination) override {
    consumed_ += destination.size();
    return destination.size();
  }
  bool Expect(std::uint64_t, MutableBytes) override { return false; }
  std::uint64_t consumed() const override { return consumed_; }
  void Revoke() override {}

 private:
  Rank peer_;
  std::uint64_t accepted_ = 0;
  std::uint64_t consumed_ = 0;
};

class NullEndpoint final : public Endpoint {
 public:
  NullLane& lane(Rank peer) {
    auto& lane = lanes_[peer];
    if (lane == nullptr) lane = std::make_unique<NullLane>(peer);
    return *lane;
  }
  Result<Lane*> Open(Rank peer, std::uint32_t) override { return &lane(peer); }
  void Poll(TimePoint) override {}
  bool Arm() override { return true; }
  void Disarm() override {}
  int wait_fd() const override { return -1; }
  void Revoke() override {}
  void ShutDown() override {}
  void LeaveBehind(const ControlMessage&) override {}
  void Wake() override {}
  bool SendControl(Rank, const ControlMessage&) override { return true; }
  std::vector<Rank> ControlPeers() const override { return {}; }
  bool IsConnected(Rank) const override { return false; }
  bool ControlFlushed() const override { return true; }
  std::string_view TransportTo(Rank) const override { return "null"; }
  std::string DescribePeer(Rank) const override { return "null"; }
  LinkEnd LinkTo(Rank) const override { return {}; }

  void SetSequence(Sequence sequence) {
    for (auto& [peer, lane] : lanes_) lane->sequence = sequence;
  }

 private:
  std::map<Rank, std::unique_ptr<NullLane>> lanes_;
};

void StepsOf(benchmark::State& state, Collective collective, Algorithm algorithm, int world) {
  NullEndpoint endpoint;
  HostMover mover;
  Engine engine({.rank = 0, .world_size = world}, endpoint, mover);
  PlanCache plans(0, 4);
  const auto plan = plans.Get({.collective = collective, .algorithm = algorithm, .world_size = world});
  OperationDescriptor operation{.count = collective == Collective::kBarrier ? 0u : 1u,
                                .collective = collective,
                                .type = DataType::kFloat32,
                                .algorithm = algorithm};
  const ChunkGrid grid(operation.count, 4, (*plan)->chunks);
  for (const PlanQueue& queue : (*plan)->queues) {
    if (queue.peer == kNoRank || queue.sending) continue;
    std::vector<std::byte>& incoming = endpoint.lane(queue.peer).incoming;
    for (const std::uint32_t index : queue.steps) {
      const PlanStep& step = (*plan)->steps[index];
      const std::uint64_t payload = grid.BeginByte(step.chunks.end()) - grid.BeginByte(step.chunks.first);
      std::array<std::byte, kFrameHeaderBytes> header;
      Encode(FrameHeader{.operation = operation,
                         .transfer = step.transfer,
                         .payload_bytes = static_cast<std::uint32_t>(payload),
                         .transfer_bytes = payload},
             header);
      incoming.insert(incoming.end(), header.begin(), header.end());
      incoming.resize(incoming.size() + RoundUp(payload, kLineBytes));
    }
  }
  float value = 1;
  auto* const bytes = reinterpret_cast<std::byte*>(&value);
  for ([[maybe_unused]] auto _ : state) {
    ++operation.sequence;
    endpoint.SetSequence(operation.sequence);
    if (!engine.Start(**plan, operation, {bytes, bytes}, 1)) state.SkipWithError("did not start");
    while (true) {
      const auto progress = engine.Poll();
      if (!progress) {
        state.SkipWithError(progress.error().ToString().c_str());
        return;
      }
      if (*progress == Progress::kComplete) break;
    }
  }
  const auto steps = static_cast<double>((*plan)->steps.size());
  state.counters["steps"] = steps;
  state.counters["ns_per_step"] = benchmark::Counter(steps * static_cast<double>(state.iterations()) * 1e-9,
                                                     benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK_CAPTURE(StepsOf, all_reduce_recursive_doubling_2, Collective::kAllReduce, Algorithm::kRecursiveDoubling, 2);
BENCHMARK_CAPTURE(StepsOf, all_reduce_recursive_doubling_64, Collective::kAllReduce, Algorithm::kRecursiveDoubling, 64);
BENCHMARK_CAPTURE(StepsOf, all_reduce_ring_8, Collective::kAllReduce, Algorithm::kRing, 8);
BENCHMARK_CAPTURE(StepsOf, all_reduce_ring_64, Collective::kAllReduce, Algorithm::kRing, 64);
BENCHMARK_CAPTURE(StepsOf, barrier_64, Collective::kBarrier, Algorithm::kDissemination, 64);

class Deaf final : public PeerObserver {
  void OnControl(Rank, ControlMessage) override {}
  void OnPeerLost(Rank, Error) override {}
};

void TwoRanks(benchmark::State& state, Algorithm algorithm) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  const InprocNetwork network(2);
  Deaf observer;
  struct Parts {
    std::unique_ptr<Endpoint> endpoint;
    HostMover mover;
    std::unique_ptr<Engine> engine;
    std::unique_ptr<PlanCache> plans;
    std::vector<float> memory;
  };
  std::vector<Parts> ranks(2);
  for (Rank r = 0; r < 2; ++r) {
    Parts& rank = ranks[static_cast<std::size_t>(r)];
    EndpointConfig config;
    config.rank = r;
    config.addresses = {network.transport(0)->Address(), network.transport(1)->Address()};
    config.observer = &observer;
    rank.endpoint = std::move(*network.transport(r)->OpenEndpoint(config));
    rank.engine = std::make_unique<Engine>(EngineOptions{.rank = r, .world_size = 2, .checksums = state.range(1) != 0},
                                           *rank.endpoint, rank.mover);
    rank.plans = std::make_unique<PlanCache>(r, 4);
    rank.memory.assign(bytes / sizeof(float), 1);
  }
  OperationDescriptor operation{.count = bytes / sizeof(float),
                                .collective = Collective::kAllReduce,
                                .type = DataType::kFloat32,
                                .op = ReduceOp::kMax,  // repeated kMax operations do not change the values
                                .algorithm = algorithm};
  const ScheduleKey key{
      .collective = Collective::kAllReduce, .algorithm = algorithm, .world_size = 2, .in_place = true};
  for ([[maybe_unused]] auto _ : state) {
    ++operation.sequence;
    for (Parts& rank : ranks) {
      auto* const own = reinterpret_cast<std::byte*>(rank.memory.data());
      if (!rank.engine->Start(**rank.plans->Get(key), operation, {own, own}, 1)) state.SkipWithError("did not start");
    }
    for (std::size_t complete = 0; complete < ranks.size();) {
      for (Parts& rank : ranks) {
        if (!rank.engine->running()) continue;
        rank.endpoint->Poll(TimePoint{});
        const auto progress = rank.engine->Poll();
        if (!progress) return state.SkipWithError(progress.error().ToString().c_str());
        complete += *progress == Progress::kComplete;
      }
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
}

BENCHMARK_CAPTURE(TwoRanks, all_reduce_ring, Algorithm::kRing)
    ->ArgNames({"bytes", "checksums"})
    ->ArgsProduct({{64, 64 << 10, 4 << 20}, {0, 1}});

void Sum(benchmark::State& state) {
  const std::vector<std::byte> bytes(static_cast<std::size_t>(state.range(0)));
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(Crc32c(bytes));
  state.SetBytesProcessed(state.range(0) * state.iterations());
}
BENCHMARK(Sum)->Arg(64)->Arg(64 << 10)->Arg(16 << 20);

}  // namespace
}  // namespace rondo

BENCHMARK_MAIN();
