// Names of a group's ranks in errors: the job's numbers, with the group's beside, as librondo's own errors have them.
#pragma once

#include <cctype>
#include <cstdint>
#include <string>
#include <vector>

namespace rondo_torch {

struct RankNames {
  // Of a group of some of the job's ranks: its name, and the job's ranks by rank of the group. Empty if the group's
  // numbers are the job's, and with torch 1.13, which does not give them.
  std::string group;
  std::vector<int32_t> job_ranks;

  // "rank 3 (rank 1 of group NAME)"; "rank 1" where there is no group.
  std::string Name(int rank) const {
    const std::string own = "rank " + std::to_string(rank);
    if (rank < 0 || static_cast<size_t>(rank) >= job_ranks.size()) return own;
    return "rank " + std::to_string(job_ranks[static_cast<size_t>(rank)]) + " (" + own + " of group " + group + ")";
  }
  // "ranks 1, 2", or the names of the ranks behind commas.
  std::string Names(const std::vector<int32_t>& ranks) const {
    std::string text = job_ranks.empty() && ranks.size() > 1 ? "ranks " : "";
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (i > 0) text += ", ";
      text += job_ranks.empty() && ranks.size() > 1 ? std::to_string(ranks[i]) : Name(ranks[i]);
    }
    return text;
  }
};

// As the first word of a sentence.
inline std::string Capital(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

}  // namespace rondo_torch
