// Proves an algorithm rather than one schedule: builds what there is of it, has each verified, and holds what the proof
// found against the papers' formulas and the documented order of operands.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/algorithms/table.h"
#include "collectives/schedule/verify.h"

namespace rondo {

// Keys, and the lists of hosts that they point to.
class KeySet {
 public:
  KeySet() = default;
  KeySet(KeySet&&) = default;  // not copied: the keys would point into the other's lists
  KeySet& operator=(KeySet&&) = default;

  auto begin() const { return keys_.begin(); }
  auto end() const { return keys_.end(); }
  std::size_t size() const { return keys_.size(); }
  const ScheduleKey& front() const { return keys_.front(); }  // all ranks on one host

 private:
  friend KeySet EveryKey(const AlgorithmEntry& entry, int world_size);
  std::vector<std::vector<int>> hosts_;
  std::vector<ScheduleKey> keys_;
};

// Every key of a world: each root where there is one, in and out of place, plain and, for reductions, scaled; for the
// hierarchical ones on one host, on one each, on two of unequal size and on three that take turns.
KeySet EveryKey(const AlgorithmEntry& entry, int world_size);

// "all_reduce ring, world 5, in place, scaled"
std::string Describe(const ScheduleKey& key);

// Of a schedule's chunks, how many make one vector: the larger of a rank's input and output.
std::uint32_t ChunksOfVector(Collective collective, int world_size, std::uint32_t chunks);

// The proof of one schedule, its rounds, bytes and order of operands being the documented ones, and the traits what the
// table says. The error is kInternal: the key and a counter-example.
Result<Proof> ProveSchedule(const AlgorithmEntry& entry, const ScheduleKey& key);

struct WorldProof {
  std::uint64_t schedules = 0;  // proved: all keys of the world
  Proof proof;                  // of one of them; rounds and bytes are those of all
};
Result<WorldProof> ProveWorld(const AlgorithmEntry& entry, int world_size);

// A world whose schedule may not fit into memory, one key: a few chunks through all ranks in full (first, last, and
// some between), and the whole list of a few ranks with the lanes between neighbours among them.
Status ProveSamples(const AlgorithmEntry& entry, const ScheduleKey& key);

struct MutationReport {
  std::string name;
  std::uint64_t refused = 0;
  std::string counter_example;  // of one of them
};
// Breaks each schedule of worlds up to `max_world` in each way, `attempts` times; every mutant must be refused. The
// error is kInternal: the mutant that passed. Mutations that have no place in this algorithm have refused == 0.
Result<std::vector<MutationReport>> RefuseMutants(const AlgorithmEntry& entry, int max_world, int attempts,
                                                  std::uint64_t seed);

}  // namespace rondo
