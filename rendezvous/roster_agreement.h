// After ranks were lost, the remaining ranks of one generation agree, through the store, on the roster of the next
// generation. A rendezvous (membership.h) follows this agreement. regroup.h combines both steps.
//
// Every rank that wants to continue writes a claim. When the settle time has passed and rules.min_ranks processes are
// present, one rank writes the roster. This happens earlier if every member of the last roster has written a claim or
// is known to be dead, and no more joiners are needed (rules.max_ranks). The rank writes the roster by one
// compare-and-set of a key that never changes again. These guarantees hold even if a process dies or pauses between any
// two calls:
//   - A generation has at most one roster, the same for every process that reads it.
//   - Only a member of generation G's roster can write a claim or the roster for generation G + 1. So if the processes
//     of generation G split into several sets, at most one set continues. If a rank comes after the roster was written
//     and is not in it, the rank gets kStale.
//   - The writer of the roster reads the claims just before it writes. Every rank whose claim it finds is in the
//     roster, even if other ranks reported that rank as dead.
//
// The agreement relies on one store. A store that was emptied, or started again by another process, is a different
// store. So a process that may have to agree on a roster must keep the store open from the first rendezvous on.
//
// A roster is one value in the store, about 100 bytes for each member. So kMaxValueBytes limits a roster to about
// 10,000 members.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/result.h"
#include "rendezvous/roster.h"
#include "rendezvous/store.h"

namespace rondo {

struct RosterOptions {
  std::string job;
  // The generation of the job's first rendezvous. It separates several communicators of one job in one store.
  std::uint64_t first_generation = 0;
  // The last roster. It is the same on all ranks, with one exception: on a rank that ran in previous.generation, each
  // member's old rank is its rank in that generation (Running in regroup.h).
  Roster previous;
  Rank rank = kNoRank;  // rank of this process in `previous`
  std::string cause;    // why this rank needs a new generation, for people
  // Gives the old ranks that this process knows to be dead. It is called several times during the wait. null: no dead
  // ranks are known.
  std::function<std::vector<Rank>()> lost;
  std::string config;  // Member::config; a joiner whose config differs is refused
  RosterRules rules;   // must be equal on all ranks; the rules of the rank that writes the roster apply
  TimePoint deadline;
  Logger* logger = nullptr;
};

// Gives the roster of generation previous.generation + 1. Errors:
// - kStale: the roster is written and lacks this process; the message says why;
// - kRebuildFailed: fewer than rules.min_ranks came by the deadline; the message lists the absent ranks;
// - kInvalidArgument: no number of ranks satisfies the rules, or `rank` is outside `previous`;
// - kResource: the roster is too long for one value of the store;
// - the errors of the store.
//
// Thread rule: one call at a time in a process. It may be repeated after an error.
Result<Roster> AgreeOnRoster(Store& store, const Clock& clock, const RosterOptions& options);

struct JoinerOptions {
  std::string job;
  std::uint64_t first_generation = 0;
  RosterEntry self;    // only instance, host and pid are used
  std::string config;  // as Member::config
  TimePoint deadline;
};

// For a joiner, a process that is not in any roster yet. Asks for admission and waits for a roster that contains the
// process. Errors:
// - kRendezvousTimeout: no rank admitted it by the deadline; the request is withdrawn;
// - kVersionMismatch: its configuration differs from that of the running ranks; the message has both values;
// - the errors of the store.
Result<Roster> AwaitAdmission(Store& store, const Clock& clock, const JoinerOptions& options);

}  // namespace rondo
