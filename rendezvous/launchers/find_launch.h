// Finds the launcher of this process.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"
#include "rendezvous/launchers/system_facts.h"

namespace rondo {

// One launcher can start another (torchrun under srun, mpirun in a batch script), and the inner launcher's processes
// inherit the outer launcher's variables. The innermost launcher must be chosen, but the variables do not show which
// one is inside which. So the launchers are tried in this order:
//
//   torchrun     innermost, because MPI's launchers start torchrun, and torchrun starts only Python
//   MPICH        only if PMI_FD is open; other launchers close it for the processes that they start
//   Open MPI
//   Slurm        outside of all other launchers except rondo run
//   rondo run    outermost: it removes the variables of all other launchers (rondo_run.h), so if a process has
//                variables of another launcher, that launcher was started inside rondo run
//
// nullopt: no launcher was found. kInvalidArgument: a variable of the chosen launcher is missing or wrong.
// kUnsupported: the chosen launcher offers no method for the rendezvous that works here.
Result<std::optional<Launched>> FindLaunch(const Environment& environment, const SystemFacts& system);

// Makes text for the error that no launcher was found. It lists every variable by which launchers are recognised. It
// also names incomplete signs of a launcher: a batch script that is no rank, MPICH with PMI_PORT, a closed PMI_FD.
std::string WhatWasLookedFor(const Environment& environment);

}  // namespace rondo
