// A roster lists the members of one generation of a job, and the ranks that are not in it any more. roster_agreement.h
// agrees on a roster; roster_records.h stores it.
//
// Thread rule: plain values, without locks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace rondo {

// A process of a job, as a roster lists it. `instance` identifies the process in all generations.
struct RosterEntry {
  std::string instance;  // random, chosen when the process joins the job; the same in all generations
  std::string host;      // for people
  std::uint64_t pid = 0;
  Rank old_rank = kNoRank;   // the rank in generation last_run; kNoRank: a joiner
  std::uint64_t joiner = 0;  // number of the joiner, from 1; 0: not a joiner
};

// A rank that is not in the new generation.
struct Departed {
  RosterEntry who;
  std::string why;  // "was found dead by rank 0: ...", "did not come within 5.0 s"
};

struct RosterRules {
  int min_ranks = 1;  // minimum number of ranks in the new generation
  // Joiners are admitted, in order of arrival, until the generation has this many ranks. If this is 0, or if this many
  // ranks or more remain, no joiner is admitted.
  int max_ranks = 0;
  Duration settle = std::chrono::seconds(5);  // settle time: how long to wait for ranks that are not known to be dead

  bool LeaveANumber() const { return min_ranks >= 1 && (max_ranks == 0 || max_ranks >= min_ranks); }
};

struct Roster {
  std::uint64_t generation = 0;
  std::uint64_t last_run = 0;        // the generation to which the old ranks belong
  std::vector<RosterEntry> members;  // by rank: the remaining ranks in the order of their old ranks, then joiners
  // Ranks lost since last_run, sorted by old rank; lost joiners are not listed.
  std::vector<Departed> departed;
  RosterRules rules;  // the rules of the rank that wrote the roster; joiners follow them
};

}  // namespace rondo
