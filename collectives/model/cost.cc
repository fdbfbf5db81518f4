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

// Chunks never depend on one another, so the longest chain belongs to a single chunk. A few chunks, spread over the
// vector, represent all.
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

std::vector<int> RanksByHost(const Place& place) {
  std::vector<int> ranks(static_cast<std::size_t>(place.host_count()), 0);
  for (const int host : place.hosts) ++ranks[static_cast<std::size_t>(host)];
  return ranks;
}

int CoresOf(const Place& place, std::size_t host) { return host < place.cores.size() ? place.cores[host] : 0; }

// Counts the transfers that a generator writes.
class Counter final : public Transfers {
 public:
  Counter(const Place& place, std::uint32_t chunks, std::uint32_t chunks_of_vector)
      : place_(place),
        share_(1.0 / chunks_of_vector),
        samples_(std::min(chunks, kSamples)),
        ranks_(place.hosts.size()),
        links_(static_cast<std::size_t>(place.host_count())),
        chains_(place.hosts.size() * (samples_ + 1)),
        pairs_(place.hosts.size() * place.hosts.size()) {
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
    const std::vector<int> ranks_by_host = RanksByHost(place_);
    std::vector<BusyWork> of_hosts(ranks_by_host.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      cost.rank = Max(cost.rank, ranks_[rank]);
      BusyWork& host = of_hosts[static_cast<std::size_t>(place_.hosts[rank])];
      host.messages += ranks_[rank].messages;
      host.moved += ranks_[rank].moved;
      host.reduced += ranks_[rank].reduced;
    }
    for (std::size_t host = 0; host < of_hosts.size(); ++host) {
      const double cores = RanksSharing(ranks_by_host[host], CoresOf(place_, host));
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
    std::uint32_t round = 0;  // the last round with a transfer
    std::uint32_t transfers = 0;
  };

  BusyWork& Of(Rank rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void Move(Rank from, Rank to, ChunkRange chunks) {
    const double vectors = chunks.count * share_;
    Pair& pair = pairs_[static_cast<std::size_t>(from) * ranks_.size() + static_cast<std::size_t>(to)];
    if (pair.round != round_) pair = {round_, 0};
    const bool is_message = pair.transfers++ % kMostTogether == 0;  // several transfers travel as one message
    for (const Rank end : {from, to}) {
      Of(end).messages += is_message ? 1 : 0;
      Of(end).moved += vectors;
    }
    const int source = place_.hosts[static_cast<std::size_t>(from)];
    const int target = place_.hosts[static_cast<std::size_t>(to)];
    if (source != target) {
      links_[static_cast<std::size_t>(source)].out += vectors;
      links_[static_cast<std::size_t>(target)].in += vectors;
    }
    // A rank's messages wait for the signals that it received before, so signals have a chain of their own.
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

  const Place& place_;
  const double share_;  // size of a chunk as a part of a vector
  const std::uint32_t samples_;
  std::array<std::uint32_t, kSamples> sampled_{};  // indices of chunks, rising
  std::vector<BusyWork> ranks_;
  std::vector<Link> links_;    // by host
  std::vector<Chain> chains_;  // by rank and sample: the longest chain up to the value that the rank holds
  std::vector<std::pair<std::size_t, Chain>> arrivals_;  // chains that end in this round
  std::vector<Pair> pairs_;                              // by sending and receiving rank
  std::uint32_t round_ = 1;
};

ScheduleCost Count(const AlgorithmEntry& entry, const Place& place) {
  const World world{.size = place.world_size(), .root = 0, .hosts = place.hosts};
  Counter counter(place, ChunksOf(entry, world),
                  entry.chunks_per_block(world) * BlocksOfVector(entry.collective, place.world_size()));
  entry.generate(world, counter);
  return counter.Take();
}

// A world of `ranks` ranks that resembles a larger one: its first hosts in full, or a part of its first host with the
// same part of the cores.
Place Shrunk(const Place& place, int ranks) {
  const std::vector<int> by_host = RanksByHost(place);
  if (by_host[0] >= ranks)
    return Place::OneHost(ranks, static_cast<int>(std::int64_t{CoresOf(place, 0)} * ranks / by_host[0]));
  Place shrunk;
  int left = ranks;
  for (std::size_t host = 0; host < by_host.size() && left > 0; ++host) {
    const int here = std::min(by_host[host], left);
    shrunk.hosts.insert(shrunk.hosts.end(), static_cast<std::size_t>(here), static_cast<int>(host));
    shrunk.cores.push_back(CoresOf(place, host));
    left -= here;
  }
  return shrunk;
}

// Extrapolates: continues the growth from a world of half the size to a `whole` one, for `doublings` further doublings.
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

int Place::host_count() const { return hosts.empty() ? 0 : *std::max_element(hosts.begin(), hosts.end()) + 1; }

int Place::even_hosts() const {
  const int count = host_count();
  return count > 0 && world_size() % count == 0 && hosts == Even(world_size(), count, 0).hosts ? count : 0;
}

Place Place::Even(int world_size, int host_count, int cores) {
  RONDO_CHECK(host_count > 0 && world_size % host_count == 0);
  Place place{{}, std::vector<int>(static_cast<std::size_t>(host_count), cores)};
  for (int rank = 0; rank < world_size; ++rank) place.hosts.push_back(rank / (world_size / host_count));
  return place;
}

bool Place::crowded() const {
  const std::vector<int> ranks = RanksByHost(*this);
  for (std::size_t host = 0; host < ranks.size(); ++host)
    if (const int cores = CoresOf(*this, host); cores > 0 && ranks[host] > cores) return true;
  return false;
}

ScheduleCost CostOf(const AlgorithmEntry& entry, const Place& place) {
  if (place.world_size() <= kCountedRanks) return Count(entry, place);
  const ScheduleCost half = Count(entry, Shrunk(place, kCountedRanks / 2));
  const ScheduleCost whole = Count(entry, Shrunk(place, kCountedRanks));
  const Continued on(std::log2(static_cast<double>(place.world_size()) / kCountedRanks));
  return {.hops = on(half.hops, whole.hops),
          .remote_hops = on(half.remote_hops, whole.remote_hops),
          .rank = on(half.rank, whole.rank),
          .core = on(half.core, whole.core),
          .wire = on(half.wire, whole.wire)};
}

double PredictUs(const ScheduleCost& cost, bool crowded, const MachineCosts& machine, double bytes) {
  const double hop_us = crowded ? machine.crowded_hop_us : machine.hop_us;
  const double latency_us = (cost.hops - cost.remote_hops) * hop_us + cost.remote_hops * machine.remote_hop_us;
  const double wire_us = cost.wire * bytes * 8e-3 / machine.wire_gbit_per_s;
  return latency_us + std::max({BusyUs(cost.rank, machine, bytes), BusyUs(cost.core, machine, bytes), wire_us});
}

}  // namespace rondo
