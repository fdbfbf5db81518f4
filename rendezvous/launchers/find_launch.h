// Finds the launcher of this process.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"
#include "rendezvous/launchers/system_facts.h"

namespace rondo {

// Launchers start each other (torchrun under srun, mpirun in a batch script), and the inner launcher's processes
// inherit the outer launcher's variables. The innermost launcher must win, but variables do not show the nesting. So
// the launchers are tried in this order:
//
//   torchrun     first: it starts Python, and MPI's launchers start torchrun
//   MPICH        if PMI_FD is open: other launchers close it for the processes that they start
//   Open MPI
//   Slurm        outside of all others except rondo run
//   rondo run    removes the variables of all others (rondo_run.h), so a process that has some was started inside it
//
// nullopt: no launcher was found. kInvalidArgument: a variable of the launcher that won is missing or wrong.
// kUnsupported: that launcher offers no way to a rendezvous that works here.
Result<std::optional<Launched>> FindLaunch(const Environment& environment, const SystemFacts& system);

// Lists, for the error if no launcher was found, every variable by which launchers are recognised. Adds what was almost
// a launcher: a batch script that is no rank, MPICH with PMI_PORT, a closed PMI_FD.
std::string WhatWasLookedFor(const Environment& environment);

}  // namespace rondo
