// Recognises mpiexec of MPICH (Hydra) and launchers derived from it (Intel MPI, MVAPICH) by the variable PMI_FD. It
// contains the descriptor of a socket to Hydra; the protocol is PMI-1.
#pragma once

#include <optional>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"
#include "rendezvous/launchers/system_facts.h"

namespace rondo {

// nullopt: MPICH did not start this process, or the descriptor in PMI_FD is not a socket. In the second case the
// process inherited the variables through a program that closes descriptors, such as another launcher. kInvalidArgument
// names the variable that is missing or wrong.
Result<std::optional<Launched>> FindMpich(const Environment& environment, const SystemFacts& system);

}  // namespace rondo
