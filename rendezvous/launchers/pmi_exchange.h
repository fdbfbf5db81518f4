// Exchanges over PMI_FD: by PMI-1 (MPICH's Hydra) and by PMI-2 (Slurm).
//
// PMI has no call that waits for a key: a value can be read after a barrier of all processes. PMI also serves a process
// only once: each process must finalize, and the server then closes its end. The exchange never closes the descriptor,
// so that the number in PMI_FD cannot be used for another file.
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
