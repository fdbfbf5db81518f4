// Exchanges through PMIx (Open MPI's mpirun, Slurm with --mpi=pmix), by a libpmix that is loaded at run time: Rondo
// builds without PMIx, and whoever launches by PMIx has it. Standard: https://pmix.github.io, version 2 and later.
//
// libpmix starts a thread of its own and counts its users, so this goes together with an MPI in the same process.
#pragma once

#include <memory>

#include "rendezvous/launchers/exchange.h"

namespace rondo {

// REQUIRES: launch.way is kPmix.
Result<std::unique_ptr<Exchange>> OpenPmixExchange(const Launched& launch, std::shared_ptr<const Clock> clock,
                                                   TimePoint deadline);

}  // namespace rondo
