#include "collectives/communicator/groups.h"

#include <cstddef>

namespace rondo {

Result<std::vector<Rank>> GroupMembers(std::span<const SplitRequest> requests, Rank self) {
  const auto of = [&](Rank rank) -> const SplitRequest& { return requests[static_cast<std::size_t>(rank)]; };
  const SplitRequest& own = of(self);
  std::vector<Rank> members;
  for (Rank r = 0; r < static_cast<Rank>(requests.size()); ++r) {
    const SplitRequest& other = of(r);
    if (other.color != own.color) continue;
    members.push_back(r);
    if (other.rails != own.rails || other.first_rail != own.first_rail)
      return Fail(ErrorCode::kMismatch,
                  "the ranks disagree about group {}: rank {} asked for {} rails from rail {} on, but rank {} asked "
                  "for {} from rail {} on",
                  own.color, self, own.rails, own.first_rail, r, other.rails, other.first_rail);
  }
  std::stable_sort(members.begin(), members.end(), [&](Rank a, Rank b) { return of(a).key < of(b).key; });
  return members;
}

Rank RankInGroup(Rank of_parent, std::span<const Rank> parent, std::span<const Rank> group) {
  const auto index = static_cast<std::size_t>(of_parent);
  if (index >= parent.size()) return kNoRank;
  const auto at = std::find(group.begin(), group.end(), parent[index]);
  return at == group.end() ? kNoRank : static_cast<Rank>(at - group.begin());
}

}  // namespace rondo
