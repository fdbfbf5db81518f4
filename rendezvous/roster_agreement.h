// Who goes on when ranks were lost: those who are left of one generation agree, through the store, on the roster of the
// next. Their meeting (membership.h) follows; regroup.h holds both.
//
// Everybody who goes on claims its place. As soon as all of the last roster have done so who are not known to be dead,
// or after a while that is given to them, somebody writes the roster, by one compare-and-set of a key that is never
// written again. What holds, whoever dies or sleeps between any two of these calls:
//   - A generation has at most one roster, the same for everybody who ever reads it.
//   - Only who is in the roster of generation G asks for one of G + 1, so of the processes that went apart at G at most
//     one set goes on. A rank that comes when the roster stands, and is not in it, gets kStale.
//   - Who claimed before the one who wrote the roster last looked is in it, although others took it for dead.
// This stands on the store being one place: a store that was emptied or that another process began anew is another
// place. So whoever may have to agree keeps the store open from the first meeting on.
//
// A roster is one value in the store, of about 100 bytes a member: kMaxValueBytes are enough for some 10,000.
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
  std::uint64_t first_generation = 0;  // of the job's first meeting: separates several on one store
  // The last one; the same on all who take part, but that who runs it has its ranks for old ones (regroup.h, Running).
  Roster previous;
  Rank rank = kNoRank;  // of this process in `previous`
  std::string cause;    // why it does not just go on as it was, for people
  // The old ranks that this process knows to be dead; asked again while it waits. Null: none.
  std::function<std::vector<Rank>()> lost;
  std::string config;  // Member::config; newcomers with another one are refused
  RosterRules rules;   // equal on all; those of whoever writes the roster count
  TimePoint deadline;
  Logger* logger = nullptr;
};

// The roster of generation previous.generation + 1. Errors:
// - kStale: it stands, without this process; the message says why and who wrote it;
// - kRebuildFailed: at the deadline there were fewer than rules.min_ranks; the message lists who came and who did not;
// - those of the store.
// Thread rule: one call at a time for a process; it may be repeated after an error.
Result<Roster> AgreeOnRoster(Store& store, const Clock& clock, const RosterOptions& options);

struct NewcomerOptions {
  std::string job;
  std::uint64_t first_generation = 0;
  RosterEntry self;    // instance, host, pid
  std::string config;  // Member::config
  TimePoint deadline;
};

// For a process that is in no roster yet: asks to be admitted and waits for the roster that does. Errors:
// - kRendezvousTimeout: nobody did by the deadline; the request is taken back;
// - kVersionMismatch: its configuration is not that of the ranks that are there; the message has both values;
// - those of the store.
Result<Roster> AwaitAdmission(Store& store, const Clock& clock, const NewcomerOptions& options);

}  // namespace rondo
