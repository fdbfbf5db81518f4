// srun of Slurm, recognised by SLURM_STEP_ID and SLURM_PROCID. With srun --mpi=pmi2 the ranks meet through Slurm's
// PMI-2, with --mpi=pmix through its PMIx. Else rank 0 serves the store on the step's first node, where Slurm puts it,
// at a port derived from the job.
//
// A batch script itself, which has SLURM_PROCID=0 and the job's SLURM_NTASKS, is no rank of anything; nor is the shell
// that salloc opens.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"
#include "rendezvous/launchers/system_facts.h"

namespace rondo {

// nullopt: it was not srun. kInvalidArgument names the variable that is missing or wrong.
Result<std::optional<Launched>> FindSlurm(const Environment& environment, const SystemFacts& system);

// The first node of a list as Slurm writes it: "n007" of "n[007-012,20],login". nullopt: no such list.
std::optional<std::string> FirstNode(std::string_view list);

// The number of tasks on a node, of a list as Slurm writes it: 3 for node 2 of "4(x2),3". nullopt: no such list.
std::optional<int> TasksOnNode(std::string_view list, int node);

}  // namespace rondo
