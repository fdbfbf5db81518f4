// The rebuilder that Connect gives to communicators, and Connect for a process that joins later. Not public.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/awake_clock.h"
#include "base/identity.h"
#include "collectives/connect.h"
#include "rendezvous/regroup.h"
#include "rendezvous/url/init_method.h"
#include "rendezvous/url/open_store.h"

namespace rondo {

// The clock of the store and of rebuilds. It differs from the clock of the communicators, unless the caller gave one.
class RebuildClock {
 public:
  // `awake`: the same clock as `clock`; null if the caller of Connect gave that clock.
  RebuildClock(std::shared_ptr<const Clock> clock, std::shared_ptr<AwakeClock> awake)
      : clock_(std::move(clock)), awake_(std::move(awake)) {}

  const std::shared_ptr<const Clock>& get() const { return clock_; }
  TimePoint Now() const { return clock_->Now(); }
  // While the result exists, this clock does not advance while this process is stopped, unless the caller of Connect
  // gave the clock. One thread at a time.
  std::shared_ptr<const AwakeClockTicker> IgnoreStops() const {
    return awake_ == nullptr ? nullptr : StartTicking(awake_);
  }

 private:
  std::shared_ptr<const Clock> clock_;
  std::shared_ptr<AwakeClock> awake_;
};

// The state that all generations of a job share in one process. It keeps the store open, because only a handle that was
// never closed proves that the store is still the same one (roster_agreement.h).
struct RebuildHome {
  RebuildHome(ConnectOptions connect, Identity proves_by, std::string job_id, OpenedStore store, bool by_a_rank,
              RebuildClock the_clock)
      : options(std::move(connect)),
        identity(std::move(proves_by)),
        job(std::move(job_id)),
        opened(std::move(store)),
        served_by_a_rank(by_a_rank),
        clock(std::move(the_clock)) {
    options.environment = nullptr;  // belongs to the caller and may be invalid by the time of a rebuild
  }

  ConnectOptions options;
  Identity identity;
  std::string job;
  OpenedStore opened;
  bool served_by_a_rank;
  RebuildClock clock;
};

// Whether one of the ranks serves the store that `method` names; false if an external process does.
bool ServedByARank(const InitMethod& method);

// Creates the communicator of `membership`, with a rebuilder. If this process serves the store, the call returns when
// the other ranks have read the result of the rendezvous, too. `deadline`: a time of home->clock.
Result<std::unique_ptr<Communicator>> CreateRebuildable(const std::shared_ptr<RebuildHome>& home,
                                                        const Membership& membership,
                                                        std::shared_ptr<Transport> transport, RosterPlace standing,
                                                        TimePoint deadline);

// Performs Connect with the option `join`. `deadline`: a time of `clock`. kUnsupported: the launcher's rendezvous
// cannot admit joiners.
Result<std::unique_ptr<Communicator>> ConnectAsJoiner(const ConnectOptions& options, const Identity& identity,
                                                      const InitMethod& method, const RebuildClock& clock,
                                                      TimePoint deadline);

}  // namespace rondo
