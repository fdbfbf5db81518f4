// Exchanges over PMI_FD, by PMI-1 (MPICH's Hydra) and PMI-2 (Slurm).
//
// PMI has no call that waits for a key: a value can be had after a barrier of all processes. And it serves a process
// once: after its goodbye, which must come, the server closes its end. The descriptor's number is never closed here,
// so that it cannot come to mean something else while PMI_FD names it.
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
