// Hierarchical all-reduce: within each host, then between hosts, then within hosts again. The composition is that of
// Cho, Finkler, Serrano, Kung and Hunter, "BlueConnect: decomposing all-reduce for deep learning on heterogeneous
// network hierarchy", IBM JRD 2019.
//
// Let L be the number of ranks of the host with the fewest ranks. The vector is cut into L pieces, and the first L
// ranks of every host own one piece each. First, each rank sends each piece to the rank of its own host that owns
// the piece, and the owner reduces the contributions. Then the owners of the same piece, one per host, form a ring and
// all-reduce the piece. Finally, each owner sends the result to all ranks of its host.
//
// Hosts may have different numbers of ranks: ranks beyond the first L own nothing, but send and receive. The ranks of a
// host need not be contiguous. The drawing has P = 5, the hosts {0, 1} and {2, 3, 4}, L = 2, and the pieces A (owned by
// 0 and 2) and B (owned by 1 and 3). Each piece has one chunk per host:
//
//   inside                         | among hosts                        | inside
//   1 -[A]-> 0                     | 0 -[A1]-> 2   2 -[A0]-> 0          | 0 =[A]=> 1
//   0 -[B]-> 1                     | 1 -[B1]-> 3   3 -[B0]-> 1          | 1 =[B]=> 0
//   3 -[A]-> 2   4 -[A]-> 2        | 2 =[A1]=> 0   0 =[A0]=> 2          | 2 =[A]=> 3, 4
//   2 -[B]-> 3   4 -[B]-> 3        | 3 =[B1]=> 1   1 =[B0]=> 3          | 3 =[B]=> 2, 4      -> reduce, => copy
//
// Between H hosts, an owner sends 2 (H - 1) / (H L) of the vector. So each byte crosses the network as often as in a
// ring of hosts, and the links of all owners share the work. In addition, an owner in a host of n ranks sends (L - 1) /
// L and then (n - 1) / L of the vector within its host. Latencies: 2 within hosts and 2 (H - 1) between hosts. The
// algorithm is meant for hosts with many ranks, if ranks reach their own host faster than other hosts. If some host has
// only one rank, L = 1 and one rank per host does all the work.
//
// Order of operands: the left fold within each host, then along the ring of hosts, with the lower rank's operand on the
// left. So the order differs by chunk.
#include <algorithm>
#include <vector>

#include "collectives/algorithms/fold.h"
#include "collectives/algorithms/generators.h"

namespace rondo {
namespace {

// The ranks of each host, ascending.
std::vector<std::vector<Rank>> RanksByHost(const World& ranks) {
  std::vector<std::vector<Rank>> by_host;
  for (Rank rank = 0; rank < ranks.size; ++rank) {
    const std::size_t host =
        ranks.hosts.empty() ? 0 : static_cast<std::size_t>(ranks.hosts[static_cast<std::size_t>(rank)]);
    if (by_host.size() <= host) by_host.resize(host + 1);
    by_host[host].push_back(rank);
  }
  return by_host;
}

// The number of ranks per host that own a piece.
int Owners(const std::vector<std::vector<Rank>>& by_host) {
  std::size_t fewest = by_host[0].size();
  for (const auto& members : by_host) fewest = std::min(fewest, members.size());
  return static_cast<int>(fewest);
}

}  // namespace

std::uint32_t HierarchicalChunks(const World& ranks) {
  const auto by_host = RanksByHost(ranks);
  return static_cast<std::uint32_t>(Owners(by_host)) * static_cast<std::uint32_t>(by_host.size());
}

void HierarchicalAllReduce(const World& ranks, Transfers& out) {
  if (ranks.size == 1) return;
  const auto by_host = RanksByHost(ranks);
  const int hosts = static_cast<int>(by_host.size());
  const int owners = Owners(by_host);
  const auto owner = [&](int host, int piece) {
    return by_host[static_cast<std::size_t>(host)][static_cast<std::size_t>(piece)];
  };
  // A part of a piece; each piece has one part per host.
  const auto chunk = [&](int piece, int part) { return Chunk(piece * hosts + part); };
  const auto whole = [&](int piece) { return Chunks(piece * hosts, hosts); };

  for (const auto& members : by_host) {
    for (int piece = 0; piece < owners; ++piece)
      FoldInOrder(members, static_cast<std::size_t>(piece), whole(piece), out);
  }
  out.EndRound();
  if (hosts == 1) {
    for (int piece = 0; piece < owners; ++piece) out.Finish(owner(0, piece), whole(piece));
  }

  for (int hop = 1; hop < hosts; ++hop) {
    for (int piece = 0; piece < owners; ++piece) {
      for (int part = 0; part < hosts; ++part) {
        out.Reduce(owner(Wrap(part + hop, hosts), piece), owner(Wrap(part + hop + 1, hosts), piece),
                   chunk(piece, part));
      }
    }
    out.EndRound();
  }
  for (int piece = 0; hosts > 1 && piece < owners; ++piece) {
    for (int part = 0; part < hosts; ++part) out.Finish(owner(part, piece), chunk(piece, part));
  }
  for (int hop = 0; hop < hosts - 1; ++hop) {
    for (int piece = 0; piece < owners; ++piece) {
      for (int part = 0; part < hosts; ++part) {
        out.Copy(owner(Wrap(part + hop, hosts), piece), owner(Wrap(part + hop + 1, hosts), piece), chunk(piece, part));
      }
    }
    out.EndRound();
  }

  for (const auto& members : by_host) {
    const int count = static_cast<int>(members.size());
    for (int step = 1; step < count; ++step) {  // each owner sends to the next rank first
      for (int piece = 0; piece < owners; ++piece) {
        const Rank to = members[static_cast<std::size_t>(Wrap(piece + step, count))];
        out.Copy(members[static_cast<std::size_t>(piece)], to, whole(piece));
      }
    }
  }
  out.EndRound();
}

}  // namespace rondo
