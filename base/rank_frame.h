// How messages name the ranks of a group: first by the rank in the job, which the launcher, logs and other groups use,
// then by the rank within the group.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace rondo {

// The ranks of the job that form one group. It does not change after it was shared, so any thread may read it.
struct RankFrame {
  std::string group;        // the name of the group
  std::vector<Rank> ranks;  // the ranks in the job, indexed by the rank in the group

  // "rank 3 (rank 1 of group 0.1.0)"; "rank 9 of group 0.1.0" if the group has no such rank.
  std::string Name(Rank rank) const;
  // Replaces every rank in `text` by its Name: "rank 1", "rank 1, 2" and "ranks 1 and 2" name ranks of the group. Text
  // after "aborted: " is the program's own reason and stays unchanged.
  std::string Reword(std::string_view text) const;
};

// "rank 3" if `frame` is null, otherwise the frame's Name of the rank.
std::string NameOfRank(const RankFrame* frame, Rank rank);

}  // namespace rondo
