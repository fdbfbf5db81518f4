// Chooses the algorithm for a call. All ranks choose the same one, because the choice is a pure function of the
// profile, the topology and the call, and these are equal on all ranks (the rendezvous fails if profiles differ).
//
// The profile may have measurements of the collective in a similar world: of the same size, on as many hosts (with
// equally many ranks on each), and, like this world, oversubscribed or not. If so, the fastest measured algorithm is
// chosen. Otherwise the choice is the algorithm that the cost model predicts to be the fastest. Algorithms whose times
// differ by less than 5% count as equally fast. Among these, the algorithm that was chosen at the next smaller size is
// kept if it was measured; otherwise the one with the lowest number is chosen.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "collectives/algorithms/table.h"
#include "collectives/model/cost.h"
#include "collectives/model/profile.h"

namespace rondo {

// The properties of a call on which the choice may depend.
struct Call {
  Collective collective = Collective::kBarrier;
  std::uint64_t bytes = 0;    // size of a rank's largest buffer; 0 if counts differ by rank (all_to_all_v ...)
  bool reproducible = false;  // a reduction must be the left fold in rank order
  bool commutative = true;    // the operation of a reduction commutes
  bool equal_counts = true;   // all blocks have equal counts
};

struct Selection {
  Algorithm algorithm;
  const char* reason;  // a clause, such as "the fastest as measured"
};

// An algorithm that supports a call, and its expected duration.
struct Candidate {
  Algorithm algorithm;
  double us = 0;
  bool measured = false;  // true: from the profile's measurements; false: predicted
};

// Why `entry` does not support a call of its collective, as a clause; nullopt: it supports the call.
std::optional<const char*> Unfit(const AlgorithmEntry& entry, const Call& call);

// Version of the rules by which algorithms are chosen. Ranks compare it at the rendezvous, together with the profile's
// fingerprint: only ranks for which both are equal choose the same algorithms.
inline constexpr int kChoiceVersion = 3;

// Thread rule: any thread. The first choice for a kind of call (all of its properties except the size) computes the
// choices for all sizes. Later choices for that kind take nanoseconds and no lock. If nothing was measured, the first
// choice for a kind counts the transfers of every algorithm. This takes a few milliseconds in worlds of kCountedRanks
// ranks and more.
class Selector {
 public:
  Selector(std::shared_ptr<const Profile> profile, Topology topology);
  ~Selector();  // defined where Table is complete
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;

  // Returns `wanted` if it supports the call. If `wanted` is nullopt, returns the fastest algorithm. kInvalidArgument:
  // `wanted` does not support the call; the error says why, and which algorithms do. kUnsupported: no algorithm
  // supports the call.
  Result<Selection> Choose(std::optional<Algorithm> wanted, const Call& call) const;

  // Returns all algorithms that support the call, the fastest first. Predicted ones follow all measured ones, because
  // predicted and measured times are not comparable.
  std::vector<Candidate> Candidates(const Call& call) const;
  // Returns the expected duration of one algorithm. REQUIRES: it supports the collective.
  Candidate Expect(Algorithm algorithm, const Call& call) const;

  const Topology& topology() const { return topology_; }
  const Profile& profile() const { return *profile_; }

 private:
  struct Table;  // the best algorithm for each size, for calls of one kind
  static constexpr std::size_t kKinds = 16 * 8;

  const Table& TableOf(const Call& call) const;
  std::unique_ptr<const Table> MakeTable(Call call) const;
  // The caller of the next three methods must hold mutex_.
  const ScheduleCost& CostOfEntry(const AlgorithmEntry& entry) const;
  Candidate ExpectLocked(const AlgorithmEntry& entry, const Call& call) const;
  std::vector<Candidate> CandidatesLocked(const Call& call) const;

  const std::shared_ptr<const Profile> profile_;
  const Topology topology_;
  const bool oversubscribed_;
  const int even_hosts_;

  mutable std::mutex mutex_;
  mutable std::vector<std::optional<ScheduleCost>> costs_;  // by index in AllAlgorithms()
  mutable std::vector<std::unique_ptr<const Table>> made_;  // owns all tables
  // The table for each kind of call (KindOf). Written under mutex_; an entry is never replaced.
  mutable std::array<std::atomic<const Table*>, kKinds> tables_ = {};
};

}  // namespace rondo
