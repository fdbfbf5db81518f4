// Applies a plan of faults. It finds the faults that affect a lane, and counts the progress of each fault and how often
// it has fired. All ranks of a test may share one injector.
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
  std::uint64_t seed = 1;  // determines which bits are flipped if the plan does not say which
  // Called once for a fault kill@rank(R), from inside a call of one of that rank's lanes. The function may end the
  // process by a signal, or simulate a death (InprocNetwork::Kill). It must not destroy the endpoint.
  std::function<void(Rank)> kill = {};
};

// Thread rule: any thread.
class FaultInjector {
 public:
  // REQUIRES: options.kill is set if the plan has a kill. (MakeFaultyTransport checks this.)
  explicit FaultInjector(FaultPlan plan, InjectorOptions options = {});

  const FaultPlan& plan() const { return plan_; }
  // How often the fault with index `fault` in the plan has fired.
  const FireCount& fired(std::size_t fault) const { return counts_[fault]; }
  // How often all faults together have fired.
  std::uint64_t fired() const;
  // One line per fault, such as "cut@lane(0->1):bytes=4096 fired 1 times".
  std::string Describe() const;
  bool can_kill() const { return options_.kill != nullptr; }

  // ---- for the faulty transport ----

  // The indices of the plan's faults on the bytes that `from` writes to `to` on lane `lane`. These faults are cuts,
  // corruptions, stalls and slices.
  std::vector<std::size_t> OnLane(Rank from, Rank to, std::uint32_t lane) const;
  void Fire(std::size_t fault) { counts_[fault].Fire(); }
  // The bit that a corruption flips in its byte, as a mask.
  std::byte MaskOf(std::size_t fault) const;
  // The number of bytes that the rank may still write before a kill is due. 0: a kill is due, and the next call of
  // Written executes the kill.
  std::uint64_t BytesUntilKill(Rank rank) const;
  void Written(Rank rank, std::uint64_t bytes);
  // Counts a control message, and returns whether it must be lost.
  bool Drops(Rank from, Rank to);
  // The error with which this call of Endpoint::Open must fail; empty: the call must not fail.
  std::optional<Error> FailsOpen(Rank from, Rank to, std::uint32_t lane);

 private:
  const FaultPlan plan_;
  const InjectorOptions options_;
  std::deque<FireCount> counts_;                     // for each fault of the plan: how often it has fired
  std::deque<std::atomic<std::uint64_t>> progress_;  // for each fault of the plan: bytes written, or messages seen
  std::deque<std::atomic<bool>> killed_;             // for each fault of the plan: whether its kill was executed
};

}  // namespace rondo::fault
