// What a story is to be, drawn from its seed before anything happens: how many ranks, what network, what they do, and
// what goes wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "simulation/chaos.h"
#include "simulation/plain.h"
#include "transport/sim/sim.h"

namespace rondo::simulation {

// One thing that every rank does.
struct Step {
  enum class Kind : std::uint8_t { kCollective, kShift, kSplit };
  Kind kind = Kind::kCollective;
  plain::Case collective;     // kCollective
  Rank shift = 1;             // kShift: every rank sends to the one so many further, and receives
  std::size_t bytes = 0;      // kShift
  bool from_anybody = false;  // kShift
  int colors = 1;             // kSplit: the parts, in which an all_reduce follows
  std::uint64_t count = 0;    // kSplit: its elements
  Duration timeout{};
};
std::string Describe(const Step& step);

struct Fault {
  enum class Kind : std::uint8_t {
    kKill,
    kPause,
    kPartition,  // `ranks` from all others, the store among the latter
    kOneWay,     // what `ranks` say does not arrive
    kCutLane,
    kCutControl,
    kFlipHeader,
    kFlipPayload,
    kStoreKill,
    kStorePause,
    kStoreCut,  // from ranks[0]
    kStoreStall,
    kForeignClient,
  };
  Kind kind = Kind::kKill;
  std::vector<Rank> ranks;                // whom it concerns: of a stream its two ends, the sender first
  Duration at{};                          // after the beginning
  std::optional<std::uint64_t> at_event;  // instead, of kills
  Duration lasts{};                       // of pauses, partitions and stalls
  std::uint64_t number = 0;               // byte of a cut, frame of a flip, kind of a foreign client
  std::uint32_t lane = 0;                 // of a flip: 1 is that of messages
};
std::string Describe(const Fault& fault);
std::string_view Name(Fault::Kind kind);  // "cut_lane"

struct Plan {
  int world_size = 1;
  SimOptions sim;                    // of the ranks and, behind them, two machines for stores
  bool store_beside_rank_0 = false;  // what happens to that machine happens to both
  bool same_host = false;
  std::uint32_t frame_bytes = 64;
  std::uint64_t eager_bytes = 0;
  bool checksums = false;
  bool compare_results = false;
  bool rebuild = false;  // who fails goes on with those who are left, while the faults last
  int min_ranks = 1;     // of them
  Duration join_timeout{};
  std::vector<Step> steps;
  std::vector<Fault> faults;

  Rank store() const { return world_size; }
  Rank spare_store() const { return world_size + 1; }
  Duration shortest_timeout() const;
};

Plan DrawPlan(const ChaosOptions& options, Random& random);

}  // namespace rondo::simulation
