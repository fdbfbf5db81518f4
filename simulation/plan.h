// The plan of a scenario, drawn from its seed in advance: the number of ranks, the network, the steps of the ranks, and
// the faults.
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

// One step, which every rank executes.
struct Step {
  enum class Kind : std::uint8_t { kCollective, kShift, kSplit };
  Kind kind = Kind::kCollective;
  plain::Case collective;      // for kCollective
  Rank shift = 1;              // for kShift: every rank r sends to rank r + shift, and receives from rank r - shift
  std::size_t bytes = 0;       // for kShift: size of each message
  bool from_any_rank = false;  // for kShift; true: receives from kAnyRank
  int colors = 1;              // for kSplit: the number of groups; each group then makes an all_reduce
  std::uint64_t count = 0;     // for kSplit: the number of elements that each group all-reduces
  Duration timeout{};
};
std::string Describe(const Step& step);

struct Fault {
  enum class Kind : std::uint8_t {
    kKill,
    kPause,
    kPartition,  // separates `ranks` from all others, including the store
    kOneWay,     // bytes that `ranks` send do not arrive
    kCutLane,
    kCutControl,
    kFlipHeader,
    kFlipPayload,
    kStoreKill,
    kStorePause,
    kStoreCut,  // cuts the connection from ranks[0] to the store
    kStoreStall,
    kForeignClient,
  };
  Kind kind = Kind::kKill;
  std::vector<Rank> ranks;  // the affected ranks; for a stream its two ends, the sender first
  Duration at{};            // time since the beginning of the scenario
  // For kills: the number of the network event at which the rank dies, instead of `at`.
  std::optional<std::uint64_t> at_event;
  Duration lasts{};  // duration of a pause, a partition or a stall
  // For a cut: the byte offset; for a flip: the frame's number; for a foreign client: its kind.
  std::uint64_t number = 0;
  std::uint32_t lane = 0;  // for a flip; 1 is the lane for messages
};
std::string Describe(const Fault& fault);
std::string_view Name(Fault::Kind kind);  // "cut_lane"

struct Plan {
  int world_size = 1;
  SimOptions sim;                    // the network's machines: one for each rank, then two for stores
  bool store_beside_rank_0 = false;  // the store is on rank 0's machine and shares that machine's faults
  bool same_host = false;
  std::uint32_t frame_bytes = 64;
  std::uint64_t eager_bytes = 0;
  bool checksums = false;
  bool compare_results = false;
  bool rebuild = false;  // failed ranks continue with the remaining ones before the faults are healed
  int min_ranks = 1;     // the argument of Rebuild
  Duration join_timeout{};
  std::vector<Step> steps;
  std::vector<Fault> faults;

  Rank store() const { return world_size; }
  Rank spare_store() const { return world_size + 1; }
  Duration shortest_timeout() const;
};

Plan DrawPlan(const ChaosOptions& options, Random& random);

}  // namespace rondo::simulation
