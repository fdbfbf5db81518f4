// The objects that class Failure needs, for rank 2 of 4, with a clock that the test moves. Rank r runs on host
// "host<r>".
#pragma once

#include <fmt/core.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collectives/communicator/control.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/peers.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/shared_endpoint.h"
#include "tests/communicator/recording_endpoint.h"

namespace rondo {

struct FailingRank : FailureListener {
  static constexpr Rank kSelf = 2;
  static constexpr int kWorld = 4;

  explicit FailingRank(std::vector<Rank> connected = {}) {
    auto made = std::make_unique<RecordingEndpoint>();
    control = made.get();
    control->connected = std::move(connected);
    endpoint.Set(std::move(made));
  }

  void OnFailing() override { on_failing(); }
  void OnFailed() override { on_failed(); }

  static std::vector<std::string> Hosts() {
    std::vector<std::string> hosts;
    for (Rank rank = 0; rank < kWorld; ++rank) hosts.push_back(fmt::format("host{}", rank));
    return hosts;
  }

  std::function<void()> on_failing = [] {}, on_failed = [] {};
  ManualClock clock;
  RankNames names{kSelf, Hosts(), nullptr};
  Peers peers{kSelf, kWorld};
  SharedEndpoint endpoint;
  RecordingEndpoint* control = nullptr;  // the object that `endpoint` contains; tests use it directly
  Failure failure{names, peers, endpoint, clock, *this};
};

}  // namespace rondo
