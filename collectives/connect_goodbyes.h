// The goodbyes of a job, kept in the store in which its ranks have met (kept_goodbyes.h). Not public.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "collectives/kept_goodbyes.h"
#include "rendezvous/membership.h"
#include "rendezvous/url/init_method.h"

namespace rondo {

struct GoodbyeStore {
  // Called for each goodbye. The store may be opened anew: then nobody needs a connection to it in between.
  std::function<Result<OpenedStore>(TimePoint deadline)> open;
  std::string description;
  std::string job;
  std::shared_ptr<const Clock> clock;
  // The store keeps to deadlines. Others (those of a caller) get a thread for each call, which is left alone when the
  // limit has passed.
  bool keeps_deadlines = true;
};

// For the communicator of `membership`.
std::shared_ptr<KeptGoodbyes> KeepGoodbyesIn(GoodbyeStore store, const Membership& membership);

}  // namespace rondo
