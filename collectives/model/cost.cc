#include "collectives/model/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "collectives/schedule/layout.h"

namespace rondo {
namespace {

// Chunks never depend on one another, so the longest chain of messages belongs to a single chunk. A few chunks, spread
// over the vector, represent all of them.
constexpr std::uint32_t kSamples = 16;

struct Chain {
  int hops = 0;
  int remote_hops = 0;
  // One hop between hosts outweighs any number of hops within hosts.
  bool operator<(const Chain& other) const {
    return remote_hops != other.remote_hops ? remote_hops < other.remote_hops : hops < other.hops;
  }
};

std::uint32_t BlocksOfVector(Collective collective, int world_size) {
  return BlocksOf(collective, 2) > 1 ? static_cast<std::uint32_t>(world_size) : 1;
}

BusyWork Max(const BusyWork& a, const BusyWork& b) {
  return {std::max(a.messages, b.messages), std::max(a.moved, b.moved), std::max(a.reduced, b.reduced)};
}

int RanksSharing(int ranks, int cores) { return cores <= 0 ? ranks : std::min(ranks, cores); }

std::vector<int> RanksByHost(const Topology& topology) {
  std::vector<int> ranks(static_cast<std::size_t>(topology.host_count()), 0);
  for (const int host : topology.hosts) ++ranks[static_cast<std::size_t>(host)];
  return ranks;
}

int CoresOf(const Topology& topology, std::size_t host) {
  return host < topology.cores.size() ? topology.cores[host] : 0;
}

// Counts the transfers that an algorithm's generator writes.
class Counter final : public Transfers {
 public:
  Counter(const Topology& topology, std::uint32_t chunks, std::uint32_t chunks_of_vector)
      : topology_(topology),
        share_(1.0 / chunks_of_vector),
        samples_(std::min(chunks, kSamples)),
        ranks_(topology.hosts.size()),
        links_(static_cast<std::size_t>(topology.host_count())),
        chains_(topology.hosts.size() * (samples_ + 1)),
        pairs_(topology.hosts.size() * topology.hosts.size()) {
    for (std::uint32_t i = 0; i < samples_; ++i)
      sampled_[i] = samples_ == 1 ? 0 : static_cast<std::uint32_t>(std::uint64_t{i} * (chunks - 1) / (samples_ - 1));
  }

  void Reduce(Rank from, Rank to, ChunkRange chunks) override {
    Move(from, to, chunks);
    Of(to).reduced += chunks.count * share_;
  }
  void Copy(Rank from, Rank to, ChunkRange chunks) override { Move(from, to, chunks); }
  void Signal(Rank from, Rank to) override { Move(from, to, {}); }
  void Hold(Rank /*rank*/, ChunkRange /*chunks*/) override {}
  void Contribute(Rank rank, ChunkRange chunks) override { Of(rank).reduced += chunks.count * share_; }
  void Finish(Rank /*rank*/, ChunkRange /*chunks*/) override {}
  void EndRound() override {
    for (const auto& [index, chain] : arrivals_) chains_[index] = std::max(chains_[index], chain);
    arrivals_.clear();
    ++round_;
  }

  ScheduleCost Take() {
    EndRound();
    ScheduleCost cost;
    const Chain longest = chains_.empty() ? Chain{} : *std::max_element(chains_.begin(), chains_.end());
    cost.hops = longest.hops;
    cost.remote_hops = longest.remote_hops;
    const std::vector<int> ranks_by_host = RanksByHost(topology_);
    std::vector<BusyWork> of_hosts(ranks_by_host.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      cost.rank = Max(cost.rank, ranks_[rank]);
      BusyWork& host = of_hosts[static_cast<std::size_t>(topology_.hosts[rank])];
      host.messages += ranks_[rank].messages;
      host.moved += ranks_[rank].moved;
      host.reduced += ranks_[rank].reduced;
    }
    for (std::size_t host = 0; host < of_hosts.size(); ++host) {
      const double cores = RanksSharing(ranks_by_host[host], CoresOf(topology_, host));
      const BusyWork& all = of_hosts[host];
      cost.core = Max(cost.core, {all.messages / cores, all.moved / cores, all.reduced / cores});
      cost.wire = std::max({cost.wire, links_[host].out, links_[host].in});
    }
    return cost;
  }

 private:
  struct Link {
    double out = 0, in = 0;
  };
  // The transfers from one rank to another.
  struct Pair {
    std::uint32_t round = 0;  // the latest round with a transfer
    std::uint32_t transfers = 0;
  };

  BusyWork& Of(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void Move(Rank from, Rank to, ChunkRange chunks) {
    const double vectors = chunks.count * share_;
    Pair& pair = pairs_[static_cast<std::size_t>(from) * ranks_.size() + static_cast<std::size_t>(to)];
    if (pair.round != round_) pair = {round_, 0};
    const bool is_message = pair.transfers++ % kMaxTogether == 0;  // up to kMaxTogether transfers travel as one message
    for (const Rank end : {from, to}) {
      Of(end).messages += is_message ? 1 : 0;
      Of(end).moved += vectors;
    }
    const int source = topology_.hosts[static_cast<std::size_t>(from)];
    const int target = topology_.hosts[static_cast<std::size_t>(to)];
    if (source != target) {
      links_[static_cast<std::size_t>(source)].out += vectors;
      links_[static_cast<std::size_t>(target)].in += vectors;
    }
    // Signals have their own chain: a signal waits only for earlier signals. A message waits for its chunk and for the
    // signals that its sender has received.
    if (chunks.count == 0) return Lengthen(from, to, samples_, source != target);
    const std::uint32_t* const first = sampled_.data();
    const std::uint32_t* const end = first + samples_;
    for (const std::uint32_t* at = std::lower_bound(first, end, chunks.first); at != end && *at < chunks.end(); ++at)
      Lengthen(from, to, static_cast<std::uint32_t>(at - first), source != target);
  }

  void Lengthen(Rank from, Rank to, std::uint32_t sample, bool remote) {
    Chain chain = std::max(chains_[IndexOf(from, sample)], chains_[IndexOf(from, samples_)]);
    ++chain.hops;
    chain.remote_hops += remote ? 1 : 0;
    arrivals_.emplace_back(IndexOf(to, sample), chain);
  }
  std::size_t IndexOf(Rank rank, std::uint32_t sample) const {
    return static_cast<std::size_t>(rank) * (samples_ + 1) + sample;
  }

  const Topology& topology_;
  const double share_;  // size of a chunk as a fraction of a vector
  const std::uint32_t samples_;
  std::array<std::uint32_t, kSamples> sampled_{};  // indices of chunks, ascending
  std::vector<BusyWork> ranks_;
  std::vector<Link> links_;    // by host
  std::vector<Chain> chains_;  // by rank and sample: the longest chain of messages that led to the rank's value
  std::vector<std::pair<std::size_t, Chain>> arrivals_;  // chains that end in this round
  std::vector<Pair> pairs_;                              // by sending and receiving rank
  std::uint32_t round_ = 1;
};

ScheduleCost Count(const AlgorithmEntry& entry, const Topology& topology) {
  const World world{.size = topology.world_size(), .root = 0, .hosts = topology.hosts};
  Counter counter(topology, ChunksOf(entry, world),
                  entry.chunks_per_block(world) * BlocksOfVector(entry.collective, topology.world_size()));
  entry.generate(world, counter);
  return counter.Take();
}

// A world of `ranks` ranks that resembles a larger one. It has the first hosts of the larger world. If the first host
// alone has enough ranks, the smaller world is a part of that host, with a proportional number of CPU cores.
Topology Shrunk(const Topology& topology, int ranks) {
  const std::vector<int> by_host = RanksByHost(topology);
  if (by_host[0] >= ranks)
    return Topology::OneHost(ranks, static_cast<int>(std::int64_t{CoresOf(topology, 0)} * ranks / by_host[0]));
  Topology shrunk;
  int left = ranks;
  for (std::size_t host = 0; host < by_host.size() && left > 0; ++host) {
    const int here = std::min(by_host[host], left);
    shrunk.hosts.insert(shrunk.hosts.end(), static_cast<std::size_t>(here), static_cast<int>(host));
    shrunk.cores.push_back(CoresOf(topology, host));
    left -= here;
  }
  return shrunk;
}

// Extrapolates a count to a larger world. `whole` is the count in one world, and `half` the count in a world of half
// that size. The larger world has 2^doublings times as many ranks as the world of `whole`. Each doubling is assumed to
// multiply the count by whole / half.
class Continued {
 public:
  explicit Continued(double doublings) : doublings_(doublings) {}
  double operator()(double half, double whole) const {
    return half <= 0 ? whole : whole * std::pow(whole / half, doublings_);
  }
  int operator()(int half, int whole) const {
    return static_cast<int>(std::lround((*this)(static_cast<double>(half), static_cast<double>(whole))));
  }
  BusyWork operator()(const BusyWork& half, const BusyWork& whole) const {
    return {(*this)(half.messages, whole.messages), (*this)(half.moved, whole.moved),
            (*this)(half.reduced, whole.reduced)};
  }

 private:
  double doublings_;
};

double BusyUs(const BusyWork& work, const MachineCosts& machine, double bytes) {
  return work.messages * machine.message_us +
         bytes * (work.moved * machine.byte_ns + work.reduced * machine.reduce_byte_ns) * 1e-3;
}

}  // namespace

int Topology::host_count() const { return hosts.empty() ? 0 : *std::max_element(hosts.begin(), hosts.end()) + 1; }

int Topology::even_hosts() const {
  const int count = host_count();
  return count > 0 && world_size() % count == 0 && hosts == Even(world_size(), count, 0).hosts ? count : 0;
}

Topology Topology::Even(int world_size, int host_count, int cores) {
  RONDO_CHECK(host_count > 0 && world_size % host_count == 0);
  Topology topology{{}, std::vector<int>(static_cast<std::size_t>(host_count), cores)};
  for (int rank = 0; rank < world_size; ++rank) topology.hosts.push_back(rank / (world_size / host_count));
  return topology;
}

bool Topology::oversubscribed() const {
  const std::vector<int> ranks = RanksByHost(*this);
  for (std::size_t host = 0; host < ranks.size(); ++host)
    if (const int cores = CoresOf(*this, host); cores > 0 && ranks[host] > cores) return true;
  return false;
}

ScheduleCost CostOf(const AlgorithmEntry& entry, const Topology& topology) {
  if (topology.world_size() <= kCountedRanks) return Count(entry, topology);
  const ScheduleCost half = Count(entry, Shrunk(topology, kCountedRanks / 2));
  const ScheduleCost whole = Count(entry, Shrunk(topology, kCountedRanks));
  const Continued on(std::log2(static_cast<double>(topology.world_size()) / kCountedRanks));
  return {.hops = on(half.hops, whole.hops),
          .remote_hops = on(half.remote_hops, whole.remote_hops),
          .rank = on(half.rank, whole.rank),
          .core = on(half.core, whole.core),
          .wire = on(half.wire, whole.wire)};
}

double PredictUs(const ScheduleCost& cost, bool oversubscribed, const MachineCosts& machine, double bytes) {
  const double hop_us = oversubscribed ? machine.oversubscribed_latency_us : machine.hop_us;
  const double latency_us = (cost.hops - cost.remote_hops) * hop_us + cost.remote_hops * machine.remote_hop_us;
  const double wire_us = cost.wire * bytes * 8e-3 / machine.wire_gbit_per_s;
  return latency_us + std::max({BusyUs(cost.rank, machine, bytes), BusyUs(cost.core, machine, bytes), wire_us});
}

}  // namespace rondo
