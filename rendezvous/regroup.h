// From one generation of a job to the next: a roster of those who go on (roster_agreement.h), then their meeting
// (membership.h).
//
// The meeting fails where somebody of the roster dies before it ends. Then the roster itself is the generation that was
// lost, and those who are left of it agree on the next one, until a meeting succeeds or the deadline has passed: each
// try takes a generation of its own and a bounded time, so there is no livelock. All of them hear the same outcome of a
// meeting, so nobody is in a generation that others have given up, unless the store is lost to it.
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

// Where a process stands: the last roster that has it, and its rank there.
struct RosterPlace {
  Roster roster;
  Rank rank = kNoRank;
};

// The place of a process in a generation that runs: what the next regrouping begins with. Those in `roster` become
// the ranks of old; who had left before is forgotten.
RosterPlace Running(Roster roster, Rank rank);
// The same after a job's first meeting.
RosterPlace Running(const Membership& membership);

struct RegroupOptions {
  std::string job;
  std::uint64_t first_generation = 0;
  std::string cause;                        // see RosterOptions
  std::function<std::vector<Rank>()> lost;  // likewise
  RosterRules rules;                        // equal on all
  // What this process presents itself with in that generation: its address and instance there, which it has in no other
  // one, so that nothing of an older generation reaches it. `config` is the same in all.
  std::function<Result<Member>(std::uint64_t generation)> make_self;
  std::string config;
  std::string if_store_is_lost = {};  // what to tell people then: where it lived, and how it would have outlived ranks
  TimePoint deadline;
  Logger* logger = nullptr;
};

// Takes the process to the next generation that meets. `standing` is brought up to date, after an error too: a later
// call goes on from there. Errors:
// - kStale: the others have gone on without this process;
// - kRebuildFailed: too few were there, or no meeting succeeded, by the deadline; kStoreLost, kStoreTimeout and
//   everything else that stands in the way become this too, with it as the first cause;
// - kInvalidArgument: the rules.
Result<Membership> Regroup(Store& store, const Clock& clock, const RegroupOptions& options, RosterPlace& standing);

// For a process that is in no generation yet: waits until it is admitted, then goes through with it like all others, by
// the rules of the roster that admitted it (those of `options` are not asked).
// Errors: those of AwaitAdmission, and of Regroup once it was admitted.
Result<Membership> RegroupAsNewcomer(Store& store, const Clock& clock, const RegroupOptions& options,
                                     const RosterEntry& self, RosterPlace& standing);

}  // namespace rondo
