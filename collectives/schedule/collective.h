// The collectives and the algorithms that do them, by number and by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rondo {

// The numbers go over the wire (docs/WIRE.md): append, never renumber.
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

// The numbers go over the wire: append, never renumber.
enum class Algorithm : std::uint8_t {
  kRing = 1,           // each rank talks to its neighbours only, around a circle
  kTree,               // binomial
  kRecursiveHalving,   // all-reduce: Rabenseifner's halving and doubling
  kRecursiveDoubling,  // partners at distance 1, 2, 4...
  kScatterAllGather,   // broadcast
  kDissemination,      // barrier
  kDirect,             // every pair of ranks that has something for each other, at once
  kChain,              // along the ranks' order, streaming
  kDoubleTree,         // two binary trees that share the work
  kBruck,              // all-to-all, all-gather: Bruck et al.
  kPairwise,           // one partner after the other
  kKnomial4,           // trees whose nodes have up to three children a level
  kKnomial8,
  kHierarchical,  // within hosts, then among them
  kTwoShot,       // everyone to the owner of a chunk, owners to everyone
  kIntranode,     // no schedule: written once in memory that all ranks share (collectives/intranode/intranode_path.h)
};
std::string_view Name(Algorithm algorithm);  // "recursive_halving"
std::optional<Algorithm> ParseAlgorithm(std::string_view name);

}  // namespace rondo
