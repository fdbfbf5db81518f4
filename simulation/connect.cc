#include "simulation/connect.h"

#include <fmt/core.h>

#include <cstdlib>
#include <utility>

#include "collectives/regroup_request.h"

namespace rondo::simulation {
namespace {

constexpr char kConfig[] = "frame_version=1\n";  // this text is the same on all ranks

// A defect of Rondo for the negative control: CompareSet always writes. So a rank's roster replaces the roster on which
// other ranks have agreed.
class TwoRosterStore final : public Store {
 public:
  explicit TwoRosterStore(Store& inner) : inner_(inner) {}

  std::string Describe() const override { return inner_.Describe(); }
  Status SetMany(std::span<const KeyValue> entries, TimePoint deadline) override {
    return inner_.SetMany(entries, deadline);
  }
  Result<std::vector<std::optional<std::string>>> GetMany(std::span<const std::string> keys,
                                                          TimePoint deadline) override {
    return inner_.GetMany(keys, deadline);
  }
  Result<std::vector<std::string>> Wait(std::span<const std::string> keys, const WaitOptions& options) override {
    return inner_.Wait(keys, options);
  }
  Result<std::int64_t> Add(std::string_view key, std::int64_t delta, TimePoint deadline) override {
    return inner_.Add(key, delta, deadline);
  }
  Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view>, std::string_view desired,
                                      TimePoint deadline) override {
    const KeyValue entry{std::string(key), std::string(desired)};
    RONDO_TRY(inner_.SetMany({&entry, 1}, deadline));
    return CompareSetResult{.swapped = true, .current = std::string(desired)};
  }
  Result<std::size_t> DeleteMany(std::span<const std::string> keys, TimePoint deadline) override {
    return inner_.DeleteMany(keys, deadline);
  }

 private:
  Store& inner_;
};

class SimRebuilder final : public Rebuilder {
 public:
  SimRebuilder(World& world, Rank rank, Store& store, RosterPlace standing,
               std::function<void(const Membership&)> after_rendezvous)
      : world_(world),
        rank_(rank),
        store_(store),
        two_rosters_(store),
        standing_(std::move(standing)),
        after_rendezvous_(std::move(after_rendezvous)) {}

  Result<std::unique_ptr<Communicator>> Rebuild(const RebuildRequest& request) override {
    Presence presence;
    RegroupOptions options = Asked(request, {.job = kJob, .config = kConfig});
    options.make_self = [&](std::uint64_t generation) -> Result<Member> {
      presence = MakePresence(world_, rank_, generation);
      return presence.self;
    };
    Store& store = world_.negative == Negative::kTwoRosters ? static_cast<Store&>(two_rosters_) : store_;
    RONDO_ASSIGN(const Membership membership, Regroup(store, *world_.network.clock(), options, standing_));
    after_rendezvous_(membership);
    auto next = std::make_shared<SimRebuilder>(world_, rank_, store_, Running(standing_.roster, membership.rank),
                                               after_rendezvous_);
    return MakeCommunicator(world_, membership, presence.transport, std::move(next));
  }

 private:
  World& world_;
  const Rank rank_;
  Store& store_;
  TwoRosterStore two_rosters_;
  RosterPlace standing_;
  const std::function<void(const Membership&)> after_rendezvous_;
};

}  // namespace

Presence MakePresence(World& world, Rank rank, std::uint64_t generation) {
  Presence presence;
  Member& self = presence.self;
  self.instance = fmt::format("{}.{}", rank, generation);
  presence.transport =
      world.network.OpenTransport(rank, {.job = kJob, .generation = generation, .instance = self.instance});
  self.host = world.plan.same_host ? "host" : fmt::format("host{}", rank);
  self.host_id = world.plan.same_host ? "one" : "";
  self.address = presence.transport->Address();
  self.config = kConfig;
  return presence;
}

std::vector<Rank> RanksOf(const Membership& membership) {
  std::vector<Rank> ranks;
  for (const Member& member : membership.members) ranks.push_back(std::stoi(member.instance));
  return ranks;
}

Result<std::unique_ptr<Communicator>> MakeCommunicator(World& world, const Membership& membership,
                                                       std::shared_ptr<Transport> transport,
                                                       std::shared_ptr<Rebuilder> rebuilder) {
  CommunicatorOptions options;
  options.rank = membership.rank;
  for (const Member& member : membership.members)
    options.peers.push_back({.host = member.host, .host_id = member.host_id, .address = member.address});
  options.transport = std::move(transport);
  options.clock = world.network.clock();
  options.waiter = world.cluster.waiter();
  options.wait_policy = WaitPolicy{};  // no spinning, because it would stop virtual time
  options.timeout = world.negative == Negative::kNoDeadline ? std::chrono::hours(1000) : kTimeout;
  options.progress_thread = false;
  options.frame_bytes = world.plan.frame_bytes;
  options.eager_message_bytes = world.plan.eager_bytes;
  options.checksums = world.plan.checksums;
  options.compare_results = world.plan.compare_results;
  options.generation = membership.generation;
  options.rebuilder = std::move(rebuilder);
  return Communicator::Create(std::move(options));
}

std::shared_ptr<Rebuilder> MakeRebuilder(World& world, Rank rank, Store& store, const Membership& membership,
                                         std::function<void(const Membership&)> after_rendezvous) {
  return std::make_shared<SimRebuilder>(world, rank, store, Running(membership), std::move(after_rendezvous));
}

}  // namespace rondo::simulation
