// The collectives and the algorithms that implement them: their numbers and names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rondo {

// The numbers are part of the wire protocol (docs/WIRE.md): append only, never renumber.
enum class Collective : std::uint8_t {
  kAllReduce = 1,
  kBroadcast,
  kBarrier,
  kReduce,
  kAllGather,
  kReduceScatter,
  kGather,
  kScatter,
  kAllToAll,
};
std::string_view Name(Collective collective);  // "all_reduce"
std::optional<Collective> ParseCollective(std::string_view name);

// The numbers are part of the wire protocol: append only, never renumber.
enum class Algorithm : std::uint8_t {
  kRing = 1,           // each rank exchanges data only with its two neighbours on a circle
  kTree,               // binomial tree
  kRecursiveHalving,   // for all_reduce: Rabenseifner's halving and doubling
  kRecursiveDoubling,  // partners at distances 1, 2, 4...
  kScatterAllGather,   // broadcast only
  kDissemination,      // barrier only
  kDirect,             // every pair of ranks that exchanges data does so directly, all at once
  kChain,              // each rank forwards to the next, while it receives
  kDoubleTree,         // two binary trees that share the work
  kBruck,              // for all_to_all and all_gather: the algorithm of Bruck et al.
  kPairwise,           // each rank exchanges data with one partner after the other
  kKnomial4,           // trees whose nodes have up to three children per level
  kKnomial8,
  kHierarchical,  // first within hosts, then between hosts
  kTwoShot,       // each rank sends to the owners of chunks, then the owners send to all ranks
  kIntranode,     // no schedule: the ranks of one host share memory (collectives/intranode/intranode_path.h)
};
std::string_view Name(Algorithm algorithm);  // "recursive_halving"
std::optional<Algorithm> ParseAlgorithm(std::string_view name);

}  // namespace rondo
