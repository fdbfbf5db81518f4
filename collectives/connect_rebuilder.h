// The rebuilder that Connect gives to communicators, and Connect for a process that joins later. Not public.
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

// The state that all generations of a job share in one process. It keeps the store open, because only a handle that was
// never closed proves that the store is still the same one (roster_agreement.h).
struct RebuildHome {
  RebuildHome(ConnectOptions connect, Identity proves_by, std::string job_id, OpenedStore store, bool by_a_rank,
              std::shared_ptr<const Clock> the_clock)
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
  std::shared_ptr<const Clock> clock;
};

// Whether one of the ranks serves the store that `method` names; false if an external process does.
bool ServedByARank(const InitMethod& method);

// Creates the communicator of `membership`, with a rebuilder. If this process serves the store, the call returns when
// the other ranks have read the result of the rendezvous, too.
Result<std::unique_ptr<Communicator>> CreateRebuildable(const std::shared_ptr<RebuildHome>& home,
                                                        const Membership& membership,
                                                        std::shared_ptr<Transport> transport, RosterPlace standing,
                                                        TimePoint deadline);

// Performs Connect with the option `join`. kUnsupported: the launcher's rendezvous cannot admit joiners.
Result<std::unique_ptr<Communicator>> ConnectAsJoiner(const ConnectOptions& options, const Identity& identity,
                                                      const InitMethod& method,
                                                      const std::shared_ptr<const Clock>& clock, TimePoint deadline);

}  // namespace rondo
