// The order in which each algorithm combines operands, and the depth of the expressions.
#include <algorithm>
#include <bit>
#include <vector>

#include "base/check.h"
#include "collectives/algorithms/formulas.h"
#include "collectives/algorithms/formulas_parts.h"

namespace rondo {
namespace {

std::string Combined(const std::string& left, const std::string& right) { return "(" + left + "+" + right + ")"; }

// Combines the expression of rank `own` with that of rank `other`: the lower rank's operand is the left one.
std::string Joined(const std::string& text, int own, const std::string& incoming, int other) {
  return other < own ? Combined(incoming, text) : Combined(text, incoming);
}

// The left fold of ranks first..last: "((4+5)+6)".
std::string Fold(int first, int last) {
  std::string text = std::to_string(first);
  for (int rank = first + 1; rank <= last; ++rank) text = Combined(text, std::to_string(rank));
  return text;
}

// The order along the ring, from the rank after `chunk` to rank `chunk`. Rank 0's operand is added on the left.
std::string RingOrder(int world, int chunk) {
  if (chunk == world - 1) return Fold(0, world - 1);
  std::string text = Combined("0", Fold(chunk + 1, world - 1));
  for (int rank = 1; rank <= chunk; ++rank) text = Combined(text, std::to_string(rank));
  return text;
}

// A block of `ranks` ranks splits at the largest power of two below its size.
std::string BinomialOrder(int first, int ranks) {
  if (ranks == 1) return std::to_string(first);
  const int left = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) / 2;
  return Combined(BinomialOrder(first, left), BinomialOrder(first + left, ranks - left));
}

// A block of `ranks` ranks is cut into blocks whose size is the largest power of the radix below `ranks`. The block
// with the root is combined first with the blocks on its left, the nearest first, then with those on its right.
std::string KnomialOrder(int first, int ranks, int radix, int root) {
  if (ranks == 1) return std::to_string(first);
  int size = 1;
  while (size * radix < ranks) size *= radix;
  const int blocks = (ranks + size - 1) / size;
  const auto block = [&](int i) {
    return KnomialOrder(first + i * size, std::min(size, ranks - i * size), radix, root);
  };
  const int own = first <= root && root < first + ranks ? (root - first) / size : 0;
  std::string text = block(own);
  for (int i = own - 1; i >= 0; --i) text = Combined(block(i), text);
  for (int i = own + 1; i < blocks; ++i) text = Combined(text, block(i));
  return text;
}

// The expression of a core member (folding.h): each of the first `extra` members represents two ranks.
std::string MemberOrder(int member, int extra) {
  return member < extra ? Fold(2 * member, 2 * member + 1) : std::to_string(member + extra);
}

// A balanced tree over a core whose size is a power of two.
std::string BalancedOrder(int first_member, int members, int extra) {
  if (members == 1) return MemberOrder(first_member, extra);
  return Combined(BalancedOrder(first_member, members / 2, extra),
                  BalancedOrder(first_member + members / 2, members / 2, extra));
}

// A balanced tree over members first, first + stride, ...: the greatest distances are combined first.
std::string StridedOrder(int first, int stride, int core, int extra) {
  if (stride == core) return MemberOrder(first, extra);
  return Combined(StridedOrder(first, 2 * stride, core, extra), StridedOrder(first + stride, 2 * stride, core, extra));
}

// A binary search tree over the places first .. first + places - 1: left subtree, the node's own operand, right
// subtree. first - 1 must be a multiple of a power of two >= places. `name` gives the rank at a place; a mirrored tree
// swaps the sides.
template <typename NameOf>
std::string SearchTreeOrder(int first, int places, bool mirrored, NameOf name) {
  const int height = static_cast<int>(std::bit_floor(static_cast<unsigned>(places)));
  const auto join = [&](const std::string& lower, const std::string& higher) {
    return mirrored ? Combined(higher, lower) : Combined(lower, higher);
  };
  std::string text = name(first - 1 + height);
  if (height > 1) text = join(SearchTreeOrder(first, height - 1, mirrored, name), text);
  if (places > height) text = join(text, SearchTreeOrder(first + height, places - height, mirrored, name));
  return text;
}

std::string DoubleTreeOrder(int world, std::uint32_t half) {
  if (world == 1) return "0";
  const int last = world - 1;
  const auto by_rank = [](int place) { return std::to_string(place); };
  const auto from_the_end = [&](int place) { return std::to_string(last - place); };
  const auto shifted = [](int place) { return std::to_string(place - 1); };
  if (half == 0) return Combined("0", SearchTreeOrder(1, last, false, by_rank));
  return Combined(
      world % 2 == 0 ? SearchTreeOrder(1, last, true, from_the_end) : SearchTreeOrder(1, last, false, shifted),
      std::to_string(last));
}

// Rank `block` combines its partners' contributions in the order of the rounds.
std::string PairwiseOrder(int world, int block) {
  const bool power_of_two = std::has_single_bit(static_cast<unsigned>(world));
  std::string text = std::to_string(block);
  for (int round = 1; round < world; ++round) {
    const int partner = power_of_two ? block ^ round : (block - round + world) % world;
    text = Joined(text, block, std::to_string(partner), partner);
  }
  return text;
}

// Left folds within the hosts, then a fold along the ring of hosts. For part p of a piece, the fold along the ring
// starts at host p + 1, modulo the number of hosts.
std::string HierarchicalOrder(const World& world, std::uint32_t chunk) {
  const std::vector<std::vector<Rank>> members = formulas::RanksOfHosts(world);
  const auto fold = [&](std::size_t host) {
    std::string text = std::to_string(members[host][0]);
    for (std::size_t i = 1; i < members[host].size(); ++i) text = Combined(text, std::to_string(members[host][i]));
    return text;
  };
  const std::size_t hosts = members.size(), piece = chunk / hosts, part = chunk % hosts;
  std::size_t at = (part + 1) % hosts;
  std::string text = fold(at);
  for (std::size_t hop = 1; hop < hosts; ++hop) {
    const std::size_t next = (at + 1) % hosts;
    text = Joined(fold(next), members[next][piece], text, members[at][piece]);
    at = next;
  }
  return text;
}

std::uint32_t SearchTreeDepth(std::uint32_t places) {
  const std::uint32_t height = std::bit_floor(places);
  const std::uint32_t left = height > 1 ? SearchTreeDepth(height - 1) + 1 : 0;
  return places > height ? std::max(left, SearchTreeDepth(places - height)) + 1 : left;
}

std::uint32_t HierarchicalDepth(const World& world) {
  const auto by_host = formulas::RanksOfHosts(world);
  std::size_t most = 0;
  for (const auto& members : by_host) most = std::max(most, members.size());
  return static_cast<std::uint32_t>(most - 1 + by_host.size() - 1);
}

}  // namespace

std::string DocumentedOrder(Collective collective, Algorithm algorithm, const World& world, std::uint32_t chunk) {
  const int p = world.size;
  const auto core = static_cast<int>(std::bit_floor(static_cast<unsigned>(p)));
  switch (algorithm) {
    case Algorithm::kRing: return RingOrder(p, static_cast<int>(chunk));
    case Algorithm::kTree: return BinomialOrder(0, p);
    case Algorithm::kRecursiveHalving:
      if (collective == Collective::kReduceScatter) return StridedOrder(0, 1, core, p - core);
      return BalancedOrder(0, core, p - core);
    case Algorithm::kRecursiveDoubling: return BalancedOrder(0, core, p - core);
    case Algorithm::kDirect:
    case Algorithm::kTwoShot:
    case Algorithm::kIntranode:
    case Algorithm::kChain: return Fold(0, p - 1);
    case Algorithm::kDoubleTree: return DoubleTreeOrder(p, chunk);
    case Algorithm::kPairwise: return PairwiseOrder(p, static_cast<int>(chunk));
    case Algorithm::kKnomial4: return KnomialOrder(0, p, 4, collective == Collective::kReduce ? world.root : 0);
    case Algorithm::kKnomial8: return KnomialOrder(0, p, 8, collective == Collective::kReduce ? world.root : 0);
    case Algorithm::kHierarchical: return HierarchicalOrder(world, chunk);
    case Algorithm::kScatterAllGather:
    case Algorithm::kDissemination:
    case Algorithm::kBruck: break;
  }
  RONDO_CHECK(false, "{} reduces nothing", Name(algorithm));
  return {};
}

std::uint32_t RoundingDepth(Algorithm algorithm, const World& world) {
  const auto p = static_cast<std::uint32_t>(world.size);
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kDirect:
    case Algorithm::kTwoShot:
    case Algorithm::kIntranode:
    case Algorithm::kChain:
    case Algorithm::kPairwise: return p - 1;
    case Algorithm::kTree:
    case Algorithm::kRecursiveHalving:
    case Algorithm::kRecursiveDoubling: return formulas::CeilLog2(p);
    case Algorithm::kDoubleTree: return p == 1 ? 0 : SearchTreeDepth(p - 1) + 1;
    case Algorithm::kKnomial4: return formulas::KnomialTurns(p, 4);
    case Algorithm::kKnomial8: return formulas::KnomialTurns(p, 8);
    case Algorithm::kHierarchical: return HierarchicalDepth(world);
    case Algorithm::kScatterAllGather:
    case Algorithm::kDissemination:
    case Algorithm::kBruck: break;
  }
  RONDO_CHECK(false, "{} reduces nothing", Name(algorithm));
  return 0;
}

}  // namespace rondo
