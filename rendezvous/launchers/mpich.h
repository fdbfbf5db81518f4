// mpiexec of MPICH (Hydra) and launchers derived from it (Intel MPI, MVAPICH). It is recognised by PMI_FD, the
// descriptor of a socket to Hydra, which uses PMI-1.
#pragma once

#include <optional>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"
#include "rendezvous/launchers/system_facts.h"

namespace rondo {

// nullopt: MPICH did not start this process, or PMI_FD is no socket of it. In the second case the variables were
// inherited through a program that closes descriptors, such as another launcher. kInvalidArgument names the variable
// that is missing or wrong.
Result<std::optional<Launched>> FindMpich(const Environment& environment, const SystemFacts& system);

}  // namespace rondo
