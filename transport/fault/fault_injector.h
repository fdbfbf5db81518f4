// Applies a plan: it knows which faults concern a lane, the progress of each fault, and how often each has fired. All
// ranks of a test may share one injector.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "transport/fault/fault_plan.h"
#include "transport/fault/fire_count.h"

namespace rondo::fault {

struct InjectorOptions {
  std::uint64_t seed = 1;  // decides which bits are flipped if the plan does not say
  // kill@rank(R) calls it, once, from inside a call of a lane of that rank. It may end the process by a signal, or
  // simulate that (InprocNetwork::Kill). It must not destroy the endpoint.
  std::function<void(Rank)> kill = {};
};

// Thread rule: any thread.
class FaultInjector {
 public:
  // REQUIRES: options.kill if the plan has a kill (otherwise MakeFaultyTransport refuses it).
  explicit FaultInjector(FaultPlan plan, InjectorOptions options = {});

  const FaultPlan& plan() const { return plan_; }
  // How often the plan's fault with that index has fired.
  const FireCount& fired(std::size_t fault) const { return counts_[fault]; }
  // How often all faults together have fired.
  std::uint64_t fired() const;
  // A line per fault: "cut@lane(0->1):bytes=4096 fired 1 times".
  std::string Describe() const;
  bool can_kill() const { return options_.kill != nullptr; }

  // ---- for the faulty transport ----

  // The indices of the plan's faults on that direction of a lane: cuts, corruptions, stalls, slices.
  std::vector<std::size_t> OnLane(Rank from, Rank to, std::uint32_t lane) const;
  void Fire(std::size_t fault) { counts_[fault].Fire(); }
  // The bit that a corruption flips in its byte, as a mask.
  std::byte MaskOf(std::size_t fault) const;
  // How many bytes the rank may still write before a kill is due; 0: a kill is due, and the next Written executes it.
  std::uint64_t BytesUntilKill(Rank rank) const;
  void Written(Rank rank, std::uint64_t bytes);
  // Counts a control message, and returns whether it must be lost.
  bool Drops(Rank from, Rank to);
  // The error with which this Open must fail; empty: it must not fail.
  std::optional<Error> FailsOpen(Rank from, Rank to, std::uint32_t lane);

 private:
  const FaultPlan plan_;
  const InjectorOptions options_;
  std::deque<FireCount> counts_;                     // by index of the fault
  std::deque<std::atomic<std::uint64_t>> progress_;  // by index of the fault: bytes written, or messages seen
  std::deque<std::atomic<bool>> killed_;             // by index of the fault
};

}  // namespace rondo::fault
