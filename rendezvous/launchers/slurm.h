// Recognises srun of Slurm by the variables SLURM_STEP_ID and SLURM_PROCID. With srun --mpi=pmi2 the ranks find the
// store through Slurm's PMI-2; with --mpi=pmix they find it through its PMIx. Otherwise rank 0 serves the store on the
// step's first node, where Slurm places rank 0, at a port derived from the job.
//
// A batch script has SLURM_PROCID=0 and the job's SLURM_NTASKS, but it is not a rank. The shell that salloc opens is
// not a rank either.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"
#include "rendezvous/launchers/system_facts.h"

namespace rondo {

// nullopt: srun did not start this process. kInvalidArgument names the variable that is missing or wrong.
Result<std::optional<Launched>> FindSlurm(const Environment& environment, const SystemFacts& system);

// Gives the first node of a list in Slurm's format: "n007" of "n[007-012,20],login". nullopt: `list` does not have that
// format.
std::optional<std::string> FirstNode(std::string_view list);

// Gives the number of tasks on a node from a list in Slurm's format: 3 for node 2 of "4(x2),3". nullopt: `list` does
// not have that format.
std::optional<int> TasksOnNode(std::string_view list, int node);

}  // namespace rondo
