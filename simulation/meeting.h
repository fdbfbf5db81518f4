// How a simulated rank comes to its communicators: at first, and again after ranks were lost. What Connect and its
// rebuilder do over sockets is done here over a simulated network; the meeting, the roster and all behind them are the
// real ones.
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
// Of Close, Split and connecting.
inline constexpr Duration kTimeout = std::chrono::seconds(5);

// What all lives of a story share. Outlives them.
struct World {
  const Plan& plan;
  Negative negative = Negative::kNone;
  SimNetwork& network;
  Cluster& cluster;
  std::function<void(const std::string&)> violate;
  std::function<void(const std::string&)> trace;
};

// How a rank of the network presents itself in one generation.
struct Presence {
  Member self;
  std::shared_ptr<Transport> transport;
};
Presence MakePresence(World& world, Rank rank, std::uint64_t generation);

// The ranks of the network that met, in the order of their ranks in the meeting.
std::vector<Rank> RanksOf(const Membership& membership);

Result<std::unique_ptr<Communicator>> MakeCommunicator(World& world, const Membership& membership,
                                                       std::shared_ptr<Transport> transport,
                                                       std::shared_ptr<Rebuilder> rebuilder);

// Of the communicator that `membership` is of; `met` is told of every later meeting. The store and the world outlive
// it.
std::shared_ptr<Rebuilder> MakeRebuilder(World& world, Rank rank, Store& store, const Membership& membership,
                                         std::function<void(const Membership&)> met);

}  // namespace rondo::simulation
