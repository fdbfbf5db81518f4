// mpiexec of MPICH (Hydra) and its kin (Intel MPI, MVAPICH), recognised by PMI_FD, a socket to Hydra that speaks PMI-1.
#pragma once

#include <optional>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"
#include "rendezvous/launchers/system_facts.h"

namespace rondo {

// nullopt: it was not MPICH, or PMI_FD is no socket of this process: then its variables were inherited through
// something that closes descriptors, such as another launcher. kInvalidArgument names the variable that is missing or
// wrong.
Result<std::optional<Launched>> FindMpich(const Environment& environment, const SystemFacts& system);

}  // namespace rondo
