// rondo run and rondo perf -N, recognised by RONDO_LAUNCHER: they serve the store themselves, at RONDO_STORE
// (MASTER_ADDR and MASTER_PORT are left to the program, whose framework may serve a store of its own there), and name
// the job in RONDO_JOB.
#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"

namespace rondo {

// nullopt: it was not rondo. kInvalidArgument names the variable that is missing or wrong.
Result<std::optional<Launched>> FindRondoRun(const Environment& environment);

// Whether a variable describes one process of a launch: its rank, its descriptors, its server. rondo run takes them
// away from the ranks that it starts, to which they would lie: about a rank of MPI inside them, and about who launched
// them. What describes an allocation (SLURM_JOB_ID, SLURM_JOB_NODELIST) stays.
bool DescribesOneProcess(std::string_view variable);

}  // namespace rondo
