// N engines over an in-process network, all polled by one thread in random order: the fixture of the engine's tests.
//
//   EngineWorld world({.ranks = 4, .network = {.reluctant = true}, .late_mover = true});
//   world.Expect({.collective = Collective::kGather, .algorithm = Algorithm::kTree, .count = 1000, .root = 2});
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "collectives/engine/host_mover.h"
#include "collectives/engine/railed_engine.h"
#include "collectives/intranode/intranode_path.h"
#include "tests/engine/late_mover.h"
#include "tests/engine/plain_shared_segment.h"
#include "tests/support/flipping.h"
#include "transport/inproc/inproc.h"

namespace rondo {

struct Case {
  Collective collective = Collective::kAllReduce;
  Algorithm algorithm = Algorithm::kRing;
  std::uint64_t count = 0;  // elements of one block
  Rank root = 0;
  bool in_place = true;
  ReduceOp op = ReduceOp::kSum;
  DataType type = DataType::kInt32;
  // The counts of the blocks, for collectives whose blocks have different counts: all_gather_v, ...
  std::vector<std::uint64_t> block_counts = {};
};

struct WorldOptions {
  int ranks = 2;
  InprocOptions network = {};
  bool late_mover = false;
  std::uint32_t frame_bytes = 1 << 20;
  std::uint64_t windows_from_bytes = 256;
  bool slices = false;
  bool checksums = false;
  RailOptions rails = {};
  FlippedBit* flipped = nullptr;       // must outlive the world
  std::size_t segment_part_bytes = 0;  // 0: no intranode path
  std::uint64_t seed = 1;
};

// Memory between two guard areas that must stay intact. It begins one byte after a cache line, so that no kernel can
// rely on alignment.
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
      : options_(options),
        random_(options.seed),
        network_(options.ranks, options.network),
        segment_(options.ranks, options.segment_part_bytes) {
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
      if (options.flipped != nullptr)
        rank->endpoint = std::make_unique<FlippingEndpoint>(std::move(rank->endpoint), r, *options.flipped);
      std::vector<Mover*> movers;
      for (std::uint32_t rail = 0; rail < options.rails.rails; ++rail) {
        if (options.late_mover) {
          rank->movers.push_back(std::make_unique<LateMover>(random_.Next()));
        } else {
          rank->movers.push_back(std::make_unique<HostMover>());
        }
        movers.push_back(rank->movers.back().get());
      }
      rank->engine = std::make_unique<RailedEngine>(EngineOptions{.rank = r,
                                                                  .world_size = options.ranks,
                                                                  .frame_bytes = options.frame_bytes,
                                                                  .capabilities = network_.transport(r)->capabilities(),
                                                                  .windows_from_bytes = options.windows_from_bytes,
                                                                  .slices = options.slices,
                                                                  .checksums = options.checksums},
                                                    options.rails, *rank->endpoint, movers);
      if (options.segment_part_bytes > 0)
        rank->intranode = std::make_unique<IntranodePath>(r, options.ranks, segment_, *movers.front());
      ranks_.push_back(std::move(rank));
    }
  }

  InprocNetwork& network() { return network_; }
  RailedEngine& engine(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)]->engine; }
  Endpoint& endpoint(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)]->endpoint; }
  PlainSharedSegment& segment() { return segment_; }
  IntranodePath& intranode(Rank rank) { return *ranks_[static_cast<std::size_t>(rank)]->intranode; }

  // Runs the operation on every rank; checks every element, every guard byte, and that inputs are unchanged.
  void Expect(const Case& c) {
    CAPTURE(Name(c.collective));
    CAPTURE(Name(c.algorithm));
    CAPTURE(options_.ranks);
    CAPTURE(c.count);
    CAPTURE(c.root);
    CAPTURE(c.in_place);
    CAPTURE(Name(c.op));
    CAPTURE(c.block_counts.empty());
    std::vector<Lent> lent = StartAll(c);
    RunToEnd();
    for (Rank r = 0; r < options_.ranks; ++r) {
      Lent& mine = lent[static_cast<std::size_t>(r)];
      CHECK(IsRight(c, r, mine));
      CHECK(IsUntouched(c, r, mine));
      CHECK((mine.input.intact() && mine.output.intact()));
    }
  }

  // The outcome of an operation on one rank that may have detected an error.
  struct Outcome {
    std::optional<Error> error;  // the rank's error; afterwards the rank is not polled any more
    bool complete = false;
    bool right = false;  // whether every element of the result is correct
  };

  // Runs an operation that may fail. Polls each rank until it is complete or has failed, but stops when nothing
  // advances any more. The world cannot be used afterwards.
  std::vector<Outcome> Attempt(const Case& c) {
    std::vector<Lent> lent = StartAll(c);
    std::vector<Outcome> outcomes(ranks_.size());
    const auto over = [](const Outcome& outcome) { return outcome.complete || outcome.error; };
    for (int idle = 0; idle < 2000 && !std::all_of(outcomes.begin(), outcomes.end(), over);) {
      const std::size_t r = random_.Below(ranks_.size());
      ++idle;
      if (over(outcomes[r])) continue;
      const auto progress = PollOne(static_cast<Rank>(r));
      if (!progress) {
        outcomes[r].error = progress.error();
      } else {
        outcomes[r].complete = *progress == Progress::kComplete;
        if (*progress != Progress::kNothing) idle = 0;
      }
    }
    for (Rank r = 0; r < options_.ranks; ++r) {
      const auto at = static_cast<std::size_t>(r);
      outcomes[at].right = IsRight(c, r, lent[at]);
      // The lanes are revoked as after a failure, so that the engine cannot use the memory any more.
      ranks_[at]->endpoint->Revoke();
      ranks_[at]->engine->Drain();
    }
    return outcomes;
  }

  // Polls all ranks, in random order, until all are complete; calls `look` with each rank after its poll.
  template <typename Look>
  void RunToEnd(Look look) {
    std::vector<bool> complete(ranks_.size());
    std::size_t left = ranks_.size();
    int idle_rounds = 0;
    while (left > 0) {
      const std::size_t r = random_.Below(ranks_.size());
      if (complete[r]) continue;
      const auto progress = PollOne(static_cast<Rank>(r));
      if (!progress) FAIL(progress.error().ToString());
      look(static_cast<Rank>(r));
      if (*progress == Progress::kComplete) {
        complete[r] = true;
        --left;
      }
      idle_rounds = *progress == Progress::kNothing ? idle_rounds + 1 : 0;
      if (idle_rounds >= 2'000'000) FAIL("no rank moves any more");
    }
  }

  void RunToEnd() {
    RunToEnd([](Rank) {});
  }

  void StartOne(Rank r, const Case& c, const std::byte* input, std::byte* output, const BlockCounts& counts = {}) {
    RankParts& rank = *ranks_[static_cast<std::size_t>(r)];
    const bool known_by_all = c.collective == Collective::kAllGather || c.collective == Collective::kReduceScatter;
    std::uint64_t all = 0;
    for (const std::uint64_t count : c.block_counts) all += count;
    const bool varying = !c.block_counts.empty();
    const OperationDescriptor operation{.sequence = sequence_,
                                        .count = !varying       ? c.count
                                                 : known_by_all ? all
                                                                : 0,
                                        .collective = c.collective,
                                        .type = c.type,
                                        .op = c.op,
                                        .algorithm = c.algorithm,
                                        .root = c.root,
                                        .varying = varying};
    const auto scale = static_cast<double>(r + 1);
    if (c.algorithm == Algorithm::kIntranode)
      return static_cast<void>(rank.intranode->Start({.operation = operation,
                                                      .buffers = {input, output, counts},
                                                      .scale = scale,
                                                      .in_place = InPlaceAt(KeyOf(c), r)}));
    const auto plan = rank.plans.Get(KeyOf(c));
    REQUIRE(plan);
    REQUIRE(rank.engine->Start(**plan, operation, {input, output, counts}, scale));
  }

  Result<Progress> PollOne(Rank r) {
    RankParts& rank = *ranks_[static_cast<std::size_t>(r)];
    rank.endpoint->Poll(TimePoint{});
    return rank.intranode != nullptr && rank.intranode->running() ? rank.intranode->Poll() : rank.engine->Poll();
  }
  void NextSequence() { ++sequence_; }

 private:
  struct RankParts {
    explicit RankParts(Rank r) : plans(r, 64) {}
    std::unique_ptr<Endpoint> endpoint;
    std::vector<std::unique_ptr<Mover>> movers;  // one for each rail
    std::unique_ptr<RailedEngine> engine;
    std::unique_ptr<IntranodePath> intranode;
    PlanCache plans;
  };

  // The memory and the counts that one rank passes to an operation.
  struct Lent {
    GuardedMemory input, output;
    std::vector<std::uint64_t> begins, sent, received;
    BlockCounts counts() const { return {begins, sent, received}; }
  };

  ScheduleKey KeyOf(const Case& c) const {
    return {.collective = c.collective,
            .algorithm = c.algorithm,
            .world_size = options_.ranks,
            .root = c.root,
            .in_place = c.in_place && c.collective != Collective::kAllToAll,
            .scaled = c.op == ReduceOp::kPremulSum};
  }

  static std::uint64_t CountOf(const Case& c, std::uint32_t block) {
    return c.block_counts.empty() ? c.count : c.block_counts[block];
  }

  // For each element of the blocks in `set`, calls function(block, index in the block, index in packed memory of the
  // set).
  template <typename Function>
  static void ForEachElement(const Case& c, const BlockSet& set, Function function) {
    std::uint64_t at = 0;
    for (std::uint32_t i = 0; i < set.count; ++i) {
      const std::uint32_t block = set.first + i * set.stride;
      for (std::uint64_t e = 0; e < CountOf(c, block); ++e) function(block, e, at++);
    }
  }

  std::vector<Lent> StartAll(const Case& c) {
    ++sequence_;
    floating_ = c.type == DataType::kFloat32;
    const ScheduleKey key = KeyOf(c);
    std::vector<Lent> lent;
    for (Rank r = 0; r < options_.ranks; ++r) {
      lent.push_back(Lend(c, r));
      Lent& mine = lent.back();
      // Memory that is not this rank's input is filled with values that no rank sends.
      Fill(c, Holds(key, r, BufferId::kInput), r, InputBlocks(key, r), mine.input.data());
      Fill(c, Holds(key, r, BufferId::kOutput), r, InPlaceAt(key, r) ? InputBlocks(key, r) : BlockSet{},
           mine.output.data());
    }
    for (Rank r = 0; r < options_.ranks; ++r) {
      Lent& mine = lent[static_cast<std::size_t>(r)];
      StartOne(r, c, mine.input.data(), mine.output.data(), mine.counts());
    }
    return lent;
  }

  bool IsRight(const Case& c, Rank r, Lent& mine) const {
    const ScheduleKey key = KeyOf(c);
    const BlockSet owed = OutputBlocks(key, r);
    bool right = true;
    ForEachElement(c, Holds(key, r, BufferId::kOutput), [&](std::uint32_t block, std::uint64_t e, std::uint64_t at) {
      right &= !owed.Contains(block) || Element(mine.output.data(), at) == Expected(c, block, e);
    });
    return right;
  }
  bool IsUntouched(const Case& c, Rank r, Lent& mine) const {
    bool untouched = true;
    ForEachElement(c, Holds(KeyOf(c), r, BufferId::kInput),
                   [&](std::uint32_t block, std::uint64_t e, std::uint64_t at) {
                     untouched &= Element(mine.input.data(), at) == Value(r, block, e);
                   });
    return untouched;
  }

  Lent Lend(const Case& c, Rank r) {
    const ScheduleKey key = KeyOf(c);
    const auto bytes = [&](BufferId buffer) {
      std::size_t elements = 0;
      ForEachElement(c, Holds(key, r, buffer), [&](auto...) { ++elements; });
      return elements * SizeOf(c.type);
    };
    Lent lent{{bytes(BufferId::kInput), random_.Below(3)}, {bytes(BufferId::kOutput), random_.Below(3)}, {}, {}, {}};
    if (c.block_counts.empty()) return lent;
    const auto append = [](std::vector<std::uint64_t>& begins, std::uint64_t count) {
      if (begins.empty()) begins.push_back(0);
      begins.push_back(begins.back() + count);
    };
    const auto p = static_cast<std::uint32_t>(options_.ranks), me = static_cast<std::uint32_t>(r);
    if (c.collective == Collective::kAllToAll) {
      for (std::uint32_t peer = 0; peer < p; ++peer) {
        append(lent.sent, c.block_counts[me * p + peer]);
        append(lent.received, c.block_counts[peer * p + me]);
      }
      return lent;
    }
    // In a gather or scatter only the root knows the counts of all ranks.
    const bool knows_all = !HasRoot(c.collective) || r == c.root;
    for (std::uint32_t block = 0; block < p; ++block)
      append(lent.begins, knows_all || block == me ? c.block_counts[block] : 0);
    return lent;
  }

  // int32 and float32 both have four bytes and represent small integers exactly.
  static std::int32_t Value(Rank rank, std::uint32_t block, std::uint64_t i) {
    return static_cast<std::int32_t>((i + 17 * block) % 251) * 4 + rank * 4;
  }
  std::int32_t Expected(const Case& c, std::uint32_t block, std::uint64_t i) const {
    const ScheduleKey key = KeyOf(c);
    std::int32_t sum = 0;
    for (Rank r = 0; r < options_.ranks; ++r) {
      if (!InputBlocks(key, r).Contains(block)) continue;
      sum += Value(r, block, i) * (c.op == ReduceOp::kPremulSum ? r + 1 : 1);
    }
    return c.op == ReduceOp::kAvg ? sum / options_.ranks : sum;
  }
  // Fills memory that holds the blocks of `set`: blocks of `own` with the rank's values, all others with a filler
  // value.
  void Fill(const Case& c, const BlockSet& set, Rank rank, const BlockSet& own, std::byte* to) const {
    ForEachElement(c, set, [&](std::uint32_t block, std::uint64_t e, std::uint64_t at) {
      const std::int32_t value = own.Contains(block) ? Value(rank, block, e) : -1'000'000;
      const auto real = static_cast<float>(value);
      std::memcpy(to + 4 * at, floating_ ? static_cast<const void*>(&real) : &value, 4);
    });
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
  PlainSharedSegment segment_;
  std::vector<std::unique_ptr<RankParts>> ranks_;
  Sequence sequence_ = 0;
  bool floating_ = false;
};

}  // namespace rondo
