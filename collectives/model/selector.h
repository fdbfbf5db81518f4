// Which algorithm serves a call. All ranks choose alike by construction: a choice is a pure function of the profile,
// the place and the call, and of all three every rank knows the same (a meeting of ranks with different profiles
// fails).
//
// Where the profile has measured times for the collective in a world of this size, on as many hosts (evenly) and as
// crowded, the fastest measured algorithm is taken, else the one that the cost model predicts to be fastest. By less
// than 5% nobody is faster: what was measured best at the next smaller size stays, else that with the lowest number is
// taken.
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

// What a choice may depend on.
struct Call {
  Collective collective = Collective::kBarrier;
  std::uint64_t bytes = 0;    // of the largest buffer of a rank; 0 where ranks know different counts (all_to_all_v ...)
  bool reproducible = false;  // a reduction must be the left fold in rank order
  bool commutative = true;    // of a reduction's operation
  bool equal_counts = true;   // of all blocks
};

struct Selection {
  Algorithm algorithm;
  const char* reason;  // one clause: "the fastest as measured"
};

// An algorithm that serves a call, and how long it should take.
struct Candidate {
  Algorithm algorithm;
  double us = 0;
  bool measured = false;  // read off the profile's times, not predicted
};

// Why `entry` cannot serve a call of its collective, as a clause, or nothing.
std::optional<const char*> Unfit(const AlgorithmEntry& entry, const Call& call);

// Goes with the profile's fingerprint where ranks meet: what they must have in common beside it to choose alike.
inline constexpr int kChoiceVersion = 3;

// Thread rule: any thread. What is worked out for one call is kept for the next of its kind; choosing then takes
// nanoseconds and no lock. The first of a kind counts every algorithm's transfers where nothing was measured: a few
// milliseconds in worlds of kCountedRanks and more.
class Selector {
 public:
  Selector(std::shared_ptr<const Profile> profile, Place place);
  ~Selector();  // where Table is whole
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;

  // `wanted` where it serves the call, else the fastest. kInvalidArgument where `wanted` does not serve: it says why,
  // and which would. kUnsupported where no algorithm does.
  Result<Selection> Choose(std::optional<Algorithm> wanted, const Call& call) const;

  // All that serve the call, the fastest first; the predicted after the measured, with which they cannot be compared.
  std::vector<Candidate> Candidates(const Call& call) const;
  // How long one takes. REQUIRES: it serves the collective.
  Candidate Expect(Algorithm algorithm, const Call& call) const;

  const Place& place() const { return place_; }
  const Profile& profile() const { return *profile_; }

 private:
  struct Table;  // the best algorithm by size, for the calls of one kind
  static constexpr std::size_t kKinds = 16 * 8;

  const Table& TableOf(const Call& call) const;
  std::unique_ptr<const Table> MakeTable(Call call) const;
  // These need mutex_.
  const ScheduleCost& CostOfEntry(const AlgorithmEntry& entry) const;
  Candidate ExpectLocked(const AlgorithmEntry& entry, const Call& call) const;
  std::vector<Candidate> CandidatesLocked(const Call& call) const;

  const std::shared_ptr<const Profile> profile_;
  const Place place_;
  const bool crowded_;
  const int even_hosts_;

  mutable std::mutex mutex_;
  mutable std::vector<std::optional<ScheduleCost>> costs_;             // by entry of the algorithms' table
  mutable std::vector<std::unique_ptr<const Table>> made_;             // every table, until the end
  mutable std::array<std::atomic<const Table*>, kKinds> tables_ = {};  // by kind; written under mutex_, never replaced
};

}  // namespace rondo
