// Takes ranks from one generation of a job to the next. The remaining ranks agree on a roster (roster_agreement.h),
// then perform a rendezvous as the members of that roster (membership.h).
//
// If a member of the roster dies during the rendezvous, the rendezvous fails. In that case no process continues in this
// generation, and the remaining members of the roster agree on the next roster. This repeats until a rendezvous
// succeeds or the deadline passes. Each attempt has a generation of its own and a bounded time, so there is no
// livelock. All members get the same result of a rendezvous. So a process never continues in a generation that the
// other processes abandoned, unless it lost the store.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "rendezvous/membership.h"
#include "rendezvous/roster.h"
#include "rendezvous/store.h"

namespace rondo {

// The latest roster that contains this process, and the rank of the process in it.
struct RosterPlace {
  Roster roster;
  Rank rank = kNoRank;
};

// Makes the RosterPlace of a process in a running generation. The next regrouping begins from it. The ranks in `roster`
// become the members' old ranks, and the list of departed ranks is cleared.
RosterPlace Running(Roster roster, Rank rank);
// Makes the RosterPlace from the result of a job's first rendezvous.
RosterPlace Running(const Membership& membership);

struct RegroupOptions {
  std::string job;
  std::uint64_t first_generation = 0;
  std::string cause;                        // see RosterOptions
  std::function<std::vector<Rank>()> lost;  // see RosterOptions
  RosterRules rules;                        // must be equal on all ranks
  // Makes the Member that describes this process in `generation`. Its address and instance must be new for each
  // generation, so that no data of an older generation reaches it. `config` is the same in all generations.
  std::function<Result<Member>(std::uint64_t generation)> make_self;
  std::string config;
  // A hint for people, added to the error if the store is lost: which process served the store, and how to make the
  // store outlive the ranks.
  std::string if_store_is_lost = {};
  TimePoint deadline;
  Logger* logger = nullptr;
};

// Takes the process to the next generation whose rendezvous succeeds. Updates `standing`, even after an error, so that
// a later call continues from it. Errors:
// - kStale: the other ranks continue without this process;
// - kRebuildFailed: too few ranks came, or no rendezvous succeeded, by the deadline. Any other error, such as
//   kStoreLost or kStoreTimeout, becomes kRebuildFailed with that error as its first cause;
// - kInvalidArgument: the rules are not allowed.
Result<Membership> Regroup(Store& store, const Clock& clock, const RegroupOptions& options, RosterPlace& standing);

// For a joiner, a process that is not in any generation yet. Waits until the joiner is admitted, then takes part like
// the other ranks, by the rules of the roster that admitted it; options.rules are not used. Errors: those of
// AwaitAdmission and, after the admission, those of Regroup.
Result<Membership> RegroupAsJoiner(Store& store, const Clock& clock, const RegroupOptions& options,
                                   const RosterEntry& self, RosterPlace& standing);

}  // namespace rondo
