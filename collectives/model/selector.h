// Chooses the algorithm for a call. All ranks choose the same one, because the choice is a pure function of the
// profile, the place and the call, and these are equal on all ranks (the rendezvous fails if profiles differ).
//
// If the profile has measurements of the collective for this world size, on as many hosts (evenly filled) and equally
// crowded, the fastest measured algorithm is chosen. Otherwise it is the one that the cost model predicts to be
// fastest. Differences below 5% do not count: the algorithm that was measured best at the next smaller size is kept,
// otherwise the one with the lowest number is chosen.
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
  std::uint64_t bytes = 0;    // of a rank's largest buffer; 0 if counts differ by rank (all_to_all_v ...)
  bool reproducible = false;  // a reduction must be the left fold in rank order
  bool commutative = true;    // the operation of a reduction commutes
  bool equal_counts = true;   // all blocks have equal counts
};

struct Selection {
  Algorithm algorithm;
  const char* reason;  // one clause: "the fastest as measured"
};

// An algorithm that can serve a call, and its expected duration.
struct Candidate {
  Algorithm algorithm;
  double us = 0;
  bool measured = false;  // from the profile's measurements, not predicted
};

// Why `entry` cannot serve a call of its collective, as a clause; nullopt: it can.
std::optional<const char*> Unfit(const AlgorithmEntry& entry, const Call& call);

// Version of the rules of choice. Ranks compare it at the rendezvous, together with the profile's fingerprint: only
// ranks with both equal choose the same algorithms.
inline constexpr int kChoiceVersion = 3;

// Thread rule: any thread. The result for one call is kept for all calls of its kind, so choosing again takes
// nanoseconds and no lock. If nothing was measured, the first choice of a kind counts every algorithm's transfers: a
// few milliseconds in worlds of kCountedRanks and more.
class Selector {
 public:
  Selector(std::shared_ptr<const Profile> profile, Place place);
  ~Selector();  // defined where Table is complete
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;

  // Returns `wanted` if it serves the call; nullopt: the fastest algorithm. kInvalidArgument: `wanted` does not serve
  // the call; the error says why, and which algorithms do. kUnsupported: no algorithm serves it.
  Result<Selection> Choose(std::optional<Algorithm> wanted, const Call& call) const;

  // All algorithms that serve the call, the fastest first. Predicted ones follow all measured ones, since their times
  // are not comparable.
  std::vector<Candidate> Candidates(const Call& call) const;
  // Expected duration of one algorithm. REQUIRES: it serves the collective.
  Candidate Expect(Algorithm algorithm, const Call& call) const;

  const Place& place() const { return place_; }
  const Profile& profile() const { return *profile_; }

 private:
  struct Table;  // the best algorithm by size, for the calls of one kind
  static constexpr std::size_t kKinds = 16 * 8;

  const Table& TableOf(const Call& call) const;
  std::unique_ptr<const Table> MakeTable(Call call) const;
  // These REQUIRE mutex_.
  const ScheduleCost& CostOfEntry(const AlgorithmEntry& entry) const;
  Candidate ExpectLocked(const AlgorithmEntry& entry, const Call& call) const;
  std::vector<Candidate> CandidatesLocked(const Call& call) const;

  const std::shared_ptr<const Profile> profile_;
  const Place place_;
  const bool crowded_;
  const int even_hosts_;

  mutable std::mutex mutex_;
  mutable std::vector<std::optional<ScheduleCost>> costs_;  // by index in AllAlgorithms()
  mutable std::vector<std::unique_ptr<const Table>> made_;  // owns all tables
  // The tables by KindOf(call). Written under mutex_; an entry is never replaced.
  mutable std::array<std::atomic<const Table*>, kKinds> tables_ = {};
};

}  // namespace rondo
