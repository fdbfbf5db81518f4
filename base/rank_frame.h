// How the ranks of a group are named to people: by their numbers in the job, since that is what a launcher, a log and
// the other groups know, with the number within the group beside.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace rondo {

// A group of some of a job's ranks. Immutable once it is shared; any thread.
struct RankFrame {
  std::string group;        // its name
  std::vector<Rank> ranks;  // of the job, by rank of the group

  // "rank 3 (rank 1 of group 0.1.0)"; "rank 9 of group 0.1.0" where the group has no such rank.
  std::string Name(Rank rank) const;
  // The same words with every rank that they name named so: "rank 1", "rank 1, 2" and "ranks 1 and 2" name ranks of the
  // group. What follows "aborted: " is a program's own reason, and stays as it is.
  std::string Reword(std::string_view text) const;
};

// "rank 3", or the name in the frame if there is one.
std::string NameOfRank(const RankFrame* frame, Rank rank);

}  // namespace rondo
