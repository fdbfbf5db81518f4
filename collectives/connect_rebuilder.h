// The rebuilder that Connect gives to communicators, and Connect itself for a process that comes later. Not public.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/identity.h"
#include "collectives/connect.h"
#include "rendezvous/regroup.h"
#include "rendezvous/url/init_method.h"
#include "rendezvous/url/open_store.h"

namespace rondo {

// What all generations of a job have in common, in one process. It keeps the store: the handle itself, since only that
// proves that it is the same store as before (roster_agreement.h).
struct RebuildHome {
  RebuildHome(ConnectOptions connect, Identity proves_by, std::string job_id, OpenedStore store, bool by_a_rank,
              std::shared_ptr<const Clock> the_clock)
      : options(std::move(connect)),
        identity(std::move(proves_by)),
        job(std::move(job_id)),
        opened(std::move(store)),
        served_by_a_rank(by_a_rank),
        clock(std::move(the_clock)) {
    options.environment = nullptr;  // the caller's; it may be gone by the time of a rebuild
  }

  ConnectOptions options;
  Identity identity;
  std::string job;
  OpenedStore opened;
  bool served_by_a_rank;
  std::shared_ptr<const Clock> clock;
};

// Whether the store that `method` names lives in one of the ranks, unless somebody else is said to serve it.
bool ServedByARank(const InitMethod& method);

// The communicator of those who have met, with a rebuilder. Where this process serves the store it returns when the
// others have met too.
Result<std::unique_ptr<Communicator>> CreateRebuildable(const std::shared_ptr<RebuildHome>& home,
                                                        const Membership& membership,
                                                        std::shared_ptr<Transport> transport, RosterPlace standing,
                                                        TimePoint deadline);

// Connect with `join`. kUnsupported: the launcher's way to meet serves no newcomers.
Result<std::unique_ptr<Communicator>> ConnectAsNewcomer(const ConnectOptions& options, const Identity& identity,
                                                        const InitMethod& method,
                                                        const std::shared_ptr<const Clock>& clock, TimePoint deadline);

}  // namespace rondo
