#include "collectives/integrity/result_digest.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace rondo {
namespace {

// The largest number of ranks that an error names, so that its text fits into an abort notice
// (collectives/communicator/control.h).
constexpr std::size_t kMaxNamed = 16;

// Returns text such as "rank 1 0x0000002a, rank 3 0xe3069283, 2 more".
std::string InWords(std::span<const std::uint32_t> digests, const std::vector<Rank>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMaxNamed); ++i)
    text +=
        fmt::format("{}rank {} 0x{:08x}", i == 0 ? "" : ", ", ranks[i], digests[static_cast<std::size_t>(ranks[i])]);
  if (ranks.size() > kMaxNamed) text += fmt::format(", {} more", ranks.size() - kMaxNamed);
  return text;
}

}  // namespace

bool HasEqualResults(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kAllGather: return true;
    case Collective::kBarrier:
    case Collective::kReduce:
    case Collective::kReduceScatter:
    case Collective::kGather:
    case Collective::kScatter:
    case Collective::kAllToAll: return false;
  }
  return false;
}

std::optional<Error> FindOddResults(std::span<const std::uint32_t> digests) {
  if (std::adjacent_find(digests.begin(), digests.end(), std::not_equal_to<>()) == digests.end()) return std::nullopt;
  // If more than half of the ranks have the same value, it is also the median.
  std::vector<std::uint32_t> sorted(digests.begin(), digests.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const std::uint32_t common = *middle;
  const auto agreeing = static_cast<std::size_t>(std::count(digests.begin(), digests.end(), common));
  const bool majority = 2 * agreeing > digests.size();

  std::vector<Rank> named;
  for (std::size_t rank = 0; rank < digests.size(); ++rank)
    if (!majority || digests[rank] != common) named.push_back(static_cast<Rank>(rank));
  const std::string others =
      majority ? fmt::format(", all {} others 0x{:08x}", agreeing, common) : std::string(", no majority");
  return Error(ErrorCode::kCorrupt,
               fmt::format("the ranks got different results; checksums: {}{}", InWords(digests, named), others))
      .With([&](ErrorDetails& d) { d.culprit = majority ? named.front() : kNoRank; });
}

}  // namespace rondo
