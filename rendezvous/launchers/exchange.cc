#include "rendezvous/launchers/exchange.h"

#include <utility>

#include "base/check.h"
#include "rendezvous/launchers/pmi_exchange.h"
#include "rendezvous/launchers/pmix_exchange.h"

namespace rondo {

Result<std::unique_ptr<Exchange>> OpenExchange(const Launched& launch, std::shared_ptr<const Clock> clock,
                                               TimePoint deadline) {
  switch (launch.way) {
    case Launched::Way::kPmi1: return OpenPmi1Exchange(launch, std::move(clock), deadline);
    case Launched::Way::kPmi2: return OpenPmi2Exchange(launch, std::move(clock), deadline);
    case Launched::Way::kPmix: return OpenPmixExchange(launch, std::move(clock), deadline);
    case Launched::Way::kTcp:
    case Launched::Way::kFile: break;
  }
  RONDO_CHECK(false, "ranks launched by {} have no exchange", launch.launcher);
}

}  // namespace rondo
