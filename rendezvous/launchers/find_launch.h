// Finds the launcher of this process.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"
#include "rendezvous/launchers/system_facts.h"

namespace rondo {

// Launchers start each other (torchrun under srun, mpirun in a batch script), and the inner one's processes inherit the
// outer one's variables. The innermost wins. Variables do not say who is inside whom, so this is how it is told:
//
//   torchrun     before all others: it starts Python, MPI's launchers start it
//   MPICH        while PMI_FD is open: other launchers close it for what they start
//   Open MPI
//   Slurm        outside of all but rondo run
//   rondo run    takes the variables of all others away (rondo_run.h), so who has some was started inside it
//
// nullopt: none of these. kInvalidArgument: the one that won left a variable out, or set it wrongly. kUnsupported: it
// offers no way to meet that works here.
Result<std::optional<Launched>> FindLaunch(const Environment& environment, const SystemFacts& system);

// Every variable by which launchers are recognised, for the message when none is there, with what was nearly one: a
// batch script that is no rank, an MPICH that serves PMI_PORT, a PMI_FD that is closed.
std::string WhatWasLookedFor(const Environment& environment);

}  // namespace rondo
