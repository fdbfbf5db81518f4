// How a simulated rank gets its communicators: at the beginning, and again after ranks were lost. This file replaces
// Connect and its rebuilder, which use sockets, by versions for a simulated network. The rendezvous, the roster and all
// code behind them are the real ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/rebuild.h"
#include "rendezvous/membership.h"
#include "rendezvous/regroup.h"
#include "rendezvous/store.h"
#include "simulation/cluster.h"
#include "simulation/plan.h"

namespace rondo::simulation {

inline constexpr char kJob[] = "chaos";
// The timeout of Close, Split and connection setup.
inline constexpr Duration kTimeout = std::chrono::seconds(5);

// State that all RankLife objects of a scenario share. Must outlive them.
struct World {
  const Plan& plan;
  Negative negative = Negative::kNone;
  SimNetwork& network;
  Cluster& cluster;
  std::function<void(const std::string&)> violate;
  std::function<void(const std::string&)> trace;
};

// What a rank of the network publishes about itself in one generation, and its transport.
struct Presence {
  Member self;
  std::shared_ptr<Transport> transport;
};
Presence MakePresence(World& world, Rank rank, std::uint64_t generation);

// The members' ranks in the network, in the order of their ranks in `membership`.
std::vector<Rank> RanksOf(const Membership& membership);

Result<std::unique_ptr<Communicator>> MakeCommunicator(World& world, const Membership& membership,
                                                       std::shared_ptr<Transport> transport,
                                                       std::shared_ptr<Rebuilder> rebuilder);

// A rebuilder for the communicator of `membership`. It calls `after_rendezvous` after every later rendezvous. The store
// and the world must outlive it.
std::shared_ptr<Rebuilder> MakeRebuilder(World& world, Rank rank, Store& store, const Membership& membership,
                                         std::function<void(const Membership&)> after_rendezvous);

}  // namespace rondo::simulation
