// Exchanges over PMI_FD: by PMI-1 (MPICH's Hydra) and by PMI-2 (Slurm).
//
// PMI has no call that waits for a key. A value can be read only after a barrier of all processes. A process can use
// PMI only once, because it must finalize, and the server then closes its end of the connection. The exchange never
// closes the descriptor, so that the number in PMI_FD cannot be used for another file.
#pragma once

#include <memory>

#include "rendezvous/launchers/exchange.h"

namespace rondo {

// REQUIRES: launch.way is kPmi1, launch.fd a socket.
Result<std::unique_ptr<Exchange>> OpenPmi1Exchange(const Launched& launch, std::shared_ptr<const Clock> clock,
                                                   TimePoint deadline);
// REQUIRES: launch.way is kPmi2, launch.fd a socket.
Result<std::unique_ptr<Exchange>> OpenPmi2Exchange(const Launched& launch, std::shared_ptr<const Clock> clock,
                                                   TimePoint deadline);

}  // namespace rondo
