// Exchanges through PMIx (Open MPI's mpirun, Slurm with --mpi=pmix), by a libpmix that is loaded at run time. So Rondo
// builds without PMIx. Standard: https://pmix.github.io, version 2 and later.
//
// libpmix starts a thread of its own. It counts its users, so an MPI library in the same process can use it, too.
#pragma once

#include <memory>

#include "rendezvous/launchers/exchange.h"

namespace rondo {

// REQUIRES: launch.way is kPmix.
Result<std::unique_ptr<Exchange>> OpenPmixExchange(const Launched& launch, std::shared_ptr<const Clock> clock,
                                                   TimePoint deadline);

}  // namespace rondo
