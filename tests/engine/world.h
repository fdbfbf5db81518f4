// N engines over an in-process network, all driven by one thread in random order: the fixture of the engine's tests.
//
//   EngineWorld world({.ranks = 4, .network = {.reluctant = true}, .late_mover = true});
//   world.Expect(AllReduce(Algorithm::kRing).Count(1000).InPlace());
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/host_mover.h"
#include "tests/engine/late_mover.h"
#include "transport/inproc/inproc.h"

namespace rondo {

struct Case {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  std::uint64_t count = 0;
  Rank root = 0;
  bool in_place = true;
  ReduceOp op = ReduceOp::kSum;
  DataType type = DataType::kInt32;
};

struct WorldOptions {
  int ranks = 2;
  InprocOptions network = {};
  bool late_mover = false;
  std::uint32_t frame_bytes = 1 << 20;
  std::uint64_t windows_from_bytes = 256;
  std::uint64_t seed = 1;
};

// Memory between two walls that must stand afterwards; one byte off a line, so that no kernel may rely on alignment.
class GuardedMemory {
 public:
  GuardedMemory(std::size_t bytes, std::size_t skew)
      : bytes_(bytes), skew_(kWall + skew), memory_(bytes + skew_ + kWall) {
    std::memset(memory_.data(), kBrick, memory_.size());
  }
  std::byte* data() { return memory_.data() + skew_; }
  bool intact() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < skew_ || i >= skew_ + bytes_) && memory_[i] != std::byte{kBrick}) return false;
    return true;
  }

 private:
  static constexpr std::size_t kWall = 64;
  static constexpr int kBrick = 0xB7;
  std::size_t bytes_;
  std::size_t skew_;
  std::vector<std::byte> memory_;
};

class EngineWorld : private PeerObserver {
 public:
  explicit EngineWorld(const WorldOptions& options)
      : options_(options), random_(options.seed), network_(options.ranks, options.network) {
    std::vector<std::string> addresses;
    for (Rank r = 0; r < options.ranks; ++r) addresses.push_back(network_.transport(r)->Address());
    for (Rank r = 0; r < options.ranks; ++r) {
      auto rank = std::make_unique<RankParts>(r);
      EndpointConfig config;
      config.communicator = 1;
      config.rank = r;
      config.addresses = addresses;
      config.observer = this;
      auto endpoint = network_.transport(r)->OpenEndpoint(config);
      REQUIRE(endpoint);
      rank->endpoint = std::move(*endpoint);
      if (options.late_mover) {
        rank->mover = std::make_unique<LateMover>(random_.Next());
      } else {
        rank->mover = std::make_unique<HostMover>();
      }
      rank->engine = std::make_unique<Engine>(EngineOptions{.rank = r,
                                                            .world_size = options.ranks,
                                                            .frame_bytes = options.frame_bytes,
                                                            .capabilities = network_.transport(r)->capabilities(),
                                                            .windows_from_bytes = options.windows_from_bytes},
                                              *rank->endpoint, *rank->mover);
      ranks_.push_back(std::move(rank));
    }
  }

  InprocNetwork& network() { return network_; }
  Engine& engine(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)]->engine; }

  // Runs it on every rank and checks every element, every guard byte and that inputs are as they were.
  void Expect(const Case& c) {
    CAPTURE(Name(c.collective));
    CAPTURE(Name(c.algorithm));
    CAPTURE(options_.ranks);
    CAPTURE(c.count);
    CAPTURE(c.root);
    CAPTURE(c.in_place);
    CAPTURE(Name(c.op));
    ++sequence_;
    const std::size_t bytes = c.count * SizeOf(c.type);
    std::vector<GuardedMemory> inputs, outputs;
    for (Rank r = 0; r < options_.ranks; ++r) {
      inputs.emplace_back(bytes, random_.Below(3));
      outputs.emplace_back(bytes, random_.Below(3));
      Fill(r, c, inputs.back().data());
      Fill(r, c, outputs.back().data());
      StartOne(r, c, c.in_place ? outputs.back().data() : inputs.back().data(), outputs.back().data());
    }
    RunToEnd();
    bool right = true, untouched = true, walls = true;
    for (Rank r = 0; r < options_.ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      for (std::uint64_t i = 0; i < c.count; ++i) {
        right &= Element(outputs[at].data(), i) == Expected(c, i);
        untouched &= Element(inputs[at].data(), i) == Value(r, i);
      }
      walls &= inputs[at].intact() && outputs[at].intact();
    }
    CHECK(right);
    CHECK(untouched);
    CHECK(walls);
  }

  // Polls all ranks, in random order, until all are complete.
  void RunToEnd() {
    std::vector<bool> complete(ranks_.size());
    std::size_t left = ranks_.size();
    int idle_rounds = 0;
    while (left > 0) {
      const std::size_t r = random_.Below(ranks_.size());
      if (complete[r]) continue;
      ranks_[r]->endpoint->Poll(TimePoint{});
      const auto progress = ranks_[r]->engine->Poll();
      if (!progress) FAIL(progress.error().ToString());
      if (*progress == Progress::kComplete) {
        complete[r] = true;
        --left;
      }
      idle_rounds = *progress == Progress::kNothing ? idle_rounds + 1 : 0;
      if (idle_rounds >= 2'000'000) FAIL("no rank moves any more");
    }
  }

  void StartOne(Rank r, const Case& c, const std::byte* input, std::byte* output) {
    RankParts& rank = *ranks_[static_cast<std::size_t>(r)];
    const bool reads_input = c.collective == Collective::kAllReduce || r == c.root;
    const auto plan = rank.plans.Get({.collective = c.collective,
                                      .algorithm = c.algorithm,
                                      .world_size = options_.ranks,
                                      .root = c.root,
                                      .in_place = c.in_place || !reads_input,
                                      .scaled = c.op == ReduceOp::kPremulSum});
    REQUIRE(plan);
    const OperationDescriptor operation{.sequence = sequence_,
                                        .count = c.count,
                                        .collective = c.collective,
                                        .type = c.type,
                                        .op = c.op,
                                        .algorithm = c.algorithm,
                                        .root = c.root};
    REQUIRE(rank.engine->Start(**plan, operation, {input, output}, static_cast<double>(r + 1)));
  }

  Result<Progress> PollOne(Rank r) {
    RankParts& rank = *ranks_[static_cast<std::size_t>(r)];
    rank.endpoint->Poll(TimePoint{});
    return rank.engine->Poll();
  }
  void NextSequence() { ++sequence_; }

 private:
  struct RankParts {
    explicit RankParts(Rank r) : plans(r, 64) {}
    std::unique_ptr<Endpoint> endpoint;
    std::unique_ptr<Mover> mover;
    std::unique_ptr<Engine> engine;
    PlanCache plans;
  };

  // int32 and float32 share four bytes and small whole values, exact in both.
  static std::int32_t Value(Rank rank, std::uint64_t i) { return static_cast<std::int32_t>(i % 251) * 4 + rank * 4; }
  std::int32_t Expected(const Case& c, std::uint64_t i) const {
    if (c.collective == Collective::kBroadcast) return Value(c.root, i);
    std::int32_t sum = 0;
    for (Rank r = 0; r < options_.ranks; ++r) sum += Value(r, i) * (c.op == ReduceOp::kPremulSum ? r + 1 : 1);
    return c.op == ReduceOp::kAvg ? sum / options_.ranks : sum;
  }
  void Fill(Rank rank, const Case& c, std::byte* to) {
    floating_ = c.type == DataType::kFloat32;
    for (std::uint64_t i = 0; i < c.count; ++i) {
      const std::int32_t value = Value(rank, i);
      const auto real = static_cast<float>(value);
      std::memcpy(to + 4 * i, floating_ ? static_cast<const void*>(&real) : &value, 4);
    }
  }
  std::int32_t Element(const std::byte* from, std::uint64_t i) const {
    std::int32_t value;
    float real;
    std::memcpy(&value, from + 4 * i, 4);
    std::memcpy(&real, from + 4 * i, 4);
    return floating_ ? static_cast<std::int32_t>(real) : value;
  }

  void OnControl(Rank, ControlMessage) override {}
  void OnPeerLost(Rank, Error) override {}

  WorldOptions options_;
  Random random_;
  InprocNetwork network_;
  std::vector<std::unique_ptr<RankParts>> ranks_;
  Sequence sequence_ = 0;
  bool floating_ = false;
};

}  // namespace rondo
