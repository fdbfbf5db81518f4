// A cluster of simulated processes: each rank of a SimNetwork runs ordinary blocking code as a fiber, in one thread, on
// virtual time. A process that waits gives its turn away; when nobody can go on, the network's next event happens.
//
//   Cluster cluster(network, stacks, seed);
//   cluster.Spawn(0, [&] { communicator.AllReduce(...); });
//   const Cluster::End end = cluster.Run(network.clock()->Now() + 60s);
//
// Who goes on first of several that can is drawn from the seed. A process that the network has paused does not run; one
// that was killed is unwound: `on_death` ends what it may be waiting in, and every wait of it returns at once, while
// nothing that it does leaves it any more.
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
  // Both outlive it.
  Cluster(SimNetwork& network, FiberStacks& stacks, std::uint64_t seed);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Starts a process. REQUIRES: none runs at that rank.
  void Spawn(Rank rank, std::function<void()> body, std::function<void()> on_death = nullptr);
  // Runs whenever something happened at the rank, beside its process: a server.
  void Serve(Rank rank, std::function<void()> service);

  enum class End : std::uint8_t {
    kDone,   // every process has ended
    kLate,   // the time was over first
    kStuck,  // nothing will ever happen any more, and somebody waits
  };
  End Run(TimePoint until);
  // Whether the rank's process has still to end.
  bool Runs(Rank rank) const { return processes_[static_cast<std::size_t>(rank)].fiber != nullptr; }

  // ---- from inside a process ----

  // Until something happens at this process' rank, or until `until`; also earlier.
  void Block(TimePoint until);
  // Until `ready()`; it must become true by something that happens at this rank or by Notify. False: the time was over
  // first, or the process was killed.
  bool Await(const std::function<bool()>& ready, TimePoint until);
  // Whether this process was killed, and should end.
  bool dying() const;
  // For communicators: sleeps by Block.
  const std::shared_ptr<Waiter>& waiter() const { return waiter_; }

  // ---- from anywhere ----

  // Lets a process look again at what it awaits.
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
    std::optional<TimePoint> until;  // while blocked
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
