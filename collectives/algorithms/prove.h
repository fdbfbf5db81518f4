// Proves an algorithm instead of one schedule: builds its schedules, verifies each of them, and compares the result
// with the papers' formulas and the documented order of operands.
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
  KeySet(KeySet&&) = default;  // not copied: the keys would point into the other set's lists
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

// Every key of a world: each root if the collective has one, in and out of place, unscaled and, for reductions, scaled.
// For hierarchical algorithms, with all ranks on one host, one host per rank, two hosts of unequal size, and three
// hosts whose ranks alternate.
KeySet EveryKey(const AlgorithmEntry& entry, int world_size);

// "all_reduce ring, world 5, in place, scaled"
std::string Describe(const ScheduleKey& key);

// How many of a schedule's chunks make one vector: the larger of a rank's input and output.
std::uint32_t ChunksOfVector(Collective collective, int world_size, std::uint32_t chunks);

// Proves one schedule, and that its rounds, bytes and order of operands are the documented ones and its traits those in
// the table. The error is kInternal, with the key and a counter-example.
Result<Proof> ProveSchedule(const AlgorithmEntry& entry, const ScheduleKey& key);

struct WorldProof {
  std::uint64_t schedules = 0;  // how many were proved: all keys of the world
  Proof proof;                  // the proof of the last key
};
Result<WorldProof> ProveWorld(const AlgorithmEntry& entry, int world_size);

// For one key of a world whose schedule may not fit into memory. Proves a few chunks (first, last, and one between)
// across all ranks, the order of a few ranks' whole lists, and the lanes between these ranks.
Status ProveSamples(const AlgorithmEntry& entry, const ScheduleKey& key);

struct MutationReport {
  std::string name;
  std::uint64_t refused = 0;
  std::string counter_example;  // for one of the mutants
};
// Breaks each schedule of worlds up to `max_world` in each way, `attempts` times; every mutant must be refused. The
// error is kInternal and names the mutant that passed. A mutation that cannot be applied to this algorithm has refused
// == 0.
Result<std::vector<MutationReport>> RefuseMutants(const AlgorithmEntry& entry, int max_world, int attempts,
                                                  std::uint64_t seed);

}  // namespace rondo
