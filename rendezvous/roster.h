// Who belongs to one generation of a job, and who no longer does: what roster_agreement.h agrees on, and what the store
// keeps of it (roster_records.h).
//
// Thread rule: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace rondo {

// A process on its way through the generations of a job.
struct RosterEntry {
  std::string instance;  // random, since the process came to the job; it keeps it through all generations
  std::string host;      // for people
  std::uint64_t pid = 0;
  Rank old_rank = kNoRank;     // in the generation that ran last; kNoRank: a newcomer
  std::uint64_t newcomer = 0;  // which newcomer it was, from 1; 0: none
};

// Somebody who does not go on.
struct Departed {
  RosterEntry who;
  std::string why;  // "found dead by rank 0: ...", "did not come within 5.0 s"
};

struct RosterRules {
  int min_ranks = 1;  // of the new generation
  // Newcomers are admitted up to so many ranks in all, in the order of their arrival. 0, or no more than are left:
  // none.
  int max_ranks = 0;
  Duration settle = std::chrono::seconds(5);  // how long is waited for those who are not known to be dead

  bool LeaveANumber() const { return min_ranks >= 1 && (max_ranks == 0 || max_ranks >= min_ranks); }
};

struct Roster {
  std::uint64_t generation = 0;
  std::uint64_t last_run = 0;        // the generation that old ranks belong to
  std::vector<RosterEntry> members;  // by rank: those who stayed in the order of their old ranks, then newcomers
  std::vector<Departed> departed;    // since last_run, by old rank; newcomers that were lost again are not told
  RosterRules rules;                 // of who wrote it; newcomers, whom nobody has told any, go by them
};

}  // namespace rondo
