// Makes the names of a group's ranks for errors. A name has the rank in the job, followed by the rank in the group, as
// in librondo's own errors.
#pragma once

#include <cctype>
#include <cstdint>
#include <string>
#include <vector>

namespace rondo_torch {

struct RankNames {
  // The name of a group that has only some of the job's ranks, and for each rank in the group its rank in the job.
  // Empty if every rank has the same number in the group as in the job. Also empty with torch 1.13, because torch 1.13
  // does not supply these values.
  std::string group;
  std::vector<int32_t> job_ranks;

  // "rank 3 (rank 1 of group NAME)", or "rank 1" without a group.
  std::string Name(int rank) const {
    const std::string own = "rank " + std::to_string(rank);
    if (rank < 0 || static_cast<size_t>(rank) >= job_ranks.size()) return own;
    return "rank " + std::to_string(job_ranks[static_cast<size_t>(rank)]) + " (" + own + " of group " + group + ")";
  }
  // "ranks 1, 2" without a group, otherwise the names of the ranks separated by commas.
  std::string Names(const std::vector<int32_t>& ranks) const {
    std::string text = job_ranks.empty() && ranks.size() > 1 ? "ranks " : "";
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (i > 0) text += ", ";
      text += job_ranks.empty() && ranks.size() > 1 ? std::to_string(ranks[i]) : Name(ranks[i]);
    }
    return text;
  }
};

// The text with a capital first letter, for the beginning of a sentence.
inline std::string Capital(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

}  // namespace rondo_torch
