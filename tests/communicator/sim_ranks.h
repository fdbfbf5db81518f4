// Ranks in one thread on virtual time, each with a communicator: for properties that must hold under any timing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "collectives/communicator.h"
#include "collectives/communicator/waiter.h"
#include "transport/sim/sim.h"

namespace rondo {

class SimRanks {
 public:
  explicit SimRanks(const SimOptions& sim, const std::function<void(CommunicatorOptions&)>& adjust = nullptr)
      : network_(sim) {
    std::vector<PeerIdentity> peers;
    for (Rank rank = 0; rank < sim.world_size; ++rank)
      peers.push_back({.host = "host" + std::to_string(rank),
                       .host_id = "",
                       .pid = 0,
                       .address = network_.transport(rank)->Address()});
    for (Rank rank = 0; rank < sim.world_size; ++rank) {
      CommunicatorOptions options;
      options.rank = rank;
      options.peers = peers;
      options.transport = network_.transport(rank);
      options.clock = network_.clock();
      options.waiter = std::make_shared<NoWaiter>();
      options.progress_thread = false;
      if (adjust) adjust(options);
      auto communicator = Communicator::Create(std::move(options));
      RONDO_CHECK(communicator.has_value(), "{}", communicator.error().ToString());
      communicators_.push_back(std::move(*communicator));
    }
  }

  SimNetwork& network() { return network_; }
  Communicator& communicator(Rank rank) { return *communicators_[static_cast<std::size_t>(rank)]; }

  // Advances virtual time until all works have ended, and returns their statuses.
  std::vector<Status> FinishAll(std::vector<Work>& works) {
    while (true) {
      std::vector<Status> statuses;
      for (Work& work : works)
        if (const auto status = work.Test()) statuses.push_back(*status);
      for (const auto& communicator : communicators_) communicator->Progress();
      if (statuses.size() == works.size()) return statuses;
      if (!network_.Step()) network_.clock()->Advance(std::chrono::milliseconds(20));
    }
  }

  // Advances virtual time until all works have ended. Returns the first error, or "".
  std::string Finish(std::vector<Work>& works) {
    while (true) {
      bool over = true;
      for (Work& work : works) {
        const auto status = work.Test();
        if (status && !*status) return status->error().ToString();
        over &= status.has_value();
      }
      for (const auto& communicator : communicators_) communicator->Progress();
      if (over) return "";
      // If no event of the network is due, only a deadline can end the works.
      if (!network_.Step()) network_.clock()->Advance(std::chrono::milliseconds(20));
    }
  }

 private:
  // A waiter that does not block, because there is only one thread.
  class NoWaiter final : public Waiter {
   public:
    void Sleep(Endpoint&, int, TimePoint) override { RONDO_CHECK(false, "a rank sleeps"); }
    void Yield() override {}
  };

  SimNetwork network_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  // by rank
};

}  // namespace rondo
