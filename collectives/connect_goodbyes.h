// Keeps the goodbyes of a job in the store of its rendezvous (kept_goodbyes.h). Not public.
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
  // Called for each goodbye. It may open the store again, so that no connection is held in between.
  std::function<Result<OpenedStore>(TimePoint deadline)> open;
  std::string description;
  std::string job;
  std::shared_ptr<const Clock> clock;
  // The store keeps to deadlines. Others (those of a caller) get a thread for each call, which is left alone when the
  // limit has passed.
  bool keeps_deadlines = true;
};

// Keeps the goodbyes of the communicator of `membership`.
std::shared_ptr<KeptGoodbyes> KeepGoodbyesIn(GoodbyeStore store, const Membership& membership);

}  // namespace rondo
