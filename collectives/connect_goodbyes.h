// Keeps the goodbyes of a job's ranks in the store of the job's rendezvous (communicator/kept_goodbyes.h). Not public.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "collectives/communicator/kept_goodbyes.h"
#include "rendezvous/membership.h"
#include "rendezvous/url/open_store.h"

namespace rondo {

struct GoodbyeStore {
  // Returns the store, and is called for each goodbye. It may open the store in each call, so that no connection stays
  // open between two calls.
  std::function<Result<OpenedStore>(TimePoint deadline)> open;
  std::string description;
  std::string job;
  std::shared_ptr<const Clock> clock;
  // Whether the store keeps to deadlines. If not (a caller's own store), each call runs on a thread of its own, which
  // is abandoned if the time limit passes.
  bool keeps_deadlines = true;
};

// Returns an object that keeps goodbyes for the communicator of `membership`.
std::shared_ptr<KeptGoodbyes> KeepGoodbyesIn(GoodbyeStore store, const Membership& membership);

}  // namespace rondo
