// Proves a whole algorithm correct, not only one schedule: builds its schedules, verifies each, and compares the
// result with the papers' formulas and the documented order of operands.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/verify.h"

namespace rondo {

// Schedule keys, and the lists of hosts to which they point.
class KeySet {
 public:
  KeySet() = default;
  KeySet(KeySet&&) = default;  // no copies: copied keys would point into the other set's lists
  KeySet& operator=(KeySet&&) = default;

  auto begin() const { return keys_.begin(); }
  auto end() const { return keys_.end(); }
  std::size_t size() const { return keys_.size(); }
  const ScheduleKey& front() const { return keys_.front(); }  // the key with all ranks on one host

 private:
  friend KeySet EveryKey(const AlgorithmEntry& entry, int world_size);
  std::vector<std::vector<int>> hosts_;
  std::vector<ScheduleKey> keys_;
};

// Returns all keys of a world: with each root if the collective has one, in place and out of place, and, for
// reductions, scaled and unscaled. For hierarchical algorithms the hosts vary, too: all ranks on one host, one host per
// rank, two hosts of unequal size, and three hosts whose ranks alternate.
KeySet EveryKey(const AlgorithmEntry& entry, int world_size);

// "all_reduce ring, world 5, in place, scaled"
std::string Describe(const ScheduleKey& key);

// The number of chunks of one vector. The vector is a rank's input or output, whichever is larger. `chunks`: number of
// chunks of the schedule.
std::uint32_t ChunksOfVector(Collective collective, int world_size, std::uint32_t chunks);

// Proves that one schedule is correct. Also checks that its rounds, bytes and order of operands are as documented, and
// that its traits are those in table.cc. The error is kInternal, with the key and a counter-example.
Result<Proof> ProveSchedule(const AlgorithmEntry& entry, const ScheduleKey& key);

struct WorldProof {
  std::uint64_t schedules = 0;  // number of schedules that were proved, one for each key of the world
  Proof proof;                  // the proof of the last of these schedules
};
Result<WorldProof> ProveWorld(const AlgorithmEntry& entry, int world_size);

// Proves samples of a schedule that might not fit into memory: three chunks (first, last, and one between) on all
// ranks, and, for a few ranks, the order of all their steps and the lanes between them.
Status ProveSamples(const AlgorithmEntry& entry, const ScheduleKey& key);

struct MutationReport {
  std::string name;
  std::uint64_t refused = 0;
  std::string counter_example;  // the counter-example to one of the mutants
};
// Breaks each schedule of worlds up to `max_world` by each mutation in mutate.h, `attempts` times. The verifier must
// refuse every mutant. The error is kInternal and names the mutant that passed. A mutation that cannot be applied to
// this algorithm has refused == 0.
Result<std::vector<MutationReport>> RefuseMutants(const AlgorithmEntry& entry, int max_world, int attempts,
                                                  std::uint64_t seed);

}  // namespace rondo
