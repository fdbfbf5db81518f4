// A cluster of simulated processes. Each rank of a SimNetwork runs ordinary blocking code in a fiber; all fibers share
// one thread and virtual time. A process that waits yields to another one. If no process can continue, the network's
// next event happens.
//
//   Cluster cluster(network, stacks, seed);
//   cluster.Spawn(0, [&] { communicator.AllReduce(...); });
//   const Cluster::End end = cluster.Run(network.clock()->Now() + 60s);
//
// If several processes can continue, the seed decides which one is first. A process that the network has paused does
// not run. A killed process is unwound: `on_death` ends the operations in which it may be waiting, every wait of the
// process returns at once, and nothing that it sends leaves it.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "collectives/communicator/waiter.h"
#include "simulation/fibers.h"
#include "transport/sim/sim.h"

namespace rondo::simulation {

class Cluster {
 public:
  // `network` and `stacks` must outlive the cluster.
  Cluster(SimNetwork& network, FiberStacks& stacks, std::uint64_t seed);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Starts a process. REQUIRES: no process runs at that rank.
  void Spawn(Rank rank, std::function<void()> body, std::function<void()> on_death = nullptr);
  // For servers: calls `service` after every event at the rank, in addition to running the rank's process if there is
  // one.
  void Serve(Rank rank, std::function<void()> service);

  enum class End : std::uint8_t {
    kDone,   // every process has ended
    kLate,   // the time passed first
    kStuck,  // there are no more events, but a process still waits
  };
  End Run(TimePoint until);
  // Whether the rank's process has not ended yet.
  bool Runs(Rank rank) const { return processes_[static_cast<std::size_t>(rank)].fiber != nullptr; }

  // ---- from inside a process ----

  // Returns when something happens at this process's rank, or at `until`; it may also return earlier.
  void Block(TimePoint until);
  // Waits until `ready()` is true. An event at this rank or a Notify must make it true. Returns false if `until` passed
  // first, or if the process was killed.
  bool Await(const std::function<bool()>& ready, TimePoint until);
  // Whether this process was killed and should end.
  bool dying() const;
  // The waiter for communicators; it sleeps in Block.
  const std::shared_ptr<Waiter>& waiter() const { return waiter_; }

  // ---- from anywhere ----

  // Makes the process of `rank` check whether its wait has ended.
  void Notify(Rank rank);
  void NotifyAll();
  std::uint64_t switches() const { return switches_; }

 private:
  struct Process {
    std::unique_ptr<Fiber> fiber;
    std::function<void()> on_death;
    std::function<void()> service;
    bool ready = false;
    bool dying = false;
    std::uint32_t turns_when_dying = 0;
    std::optional<TimePoint> until;  // set while the process is blocked
  };
  class FiberWaiter;

  void Look(Rank rank);
  void TakeTurn(Rank rank);

  SimNetwork& network_;
  FiberStacks& stacks_;
  Random random_;
  std::vector<Process> processes_;  // by rank
  std::vector<Rank> ready_;
  Rank current_ = kNoRank;
  int running_ = 0;
  std::uint64_t switches_ = 0;
  std::shared_ptr<Waiter> waiter_;
};

}  // namespace rondo::simulation
