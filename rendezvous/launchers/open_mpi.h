// Recognises mpirun of Open MPI by the variable OMPI_COMM_WORLD_RANK; prterun sets the same variables. The ranks find
// the store through mpirun's PMIx server. If no libpmix can be loaded and all ranks are on one host, they use a file
// store in mpirun's session directory. mpirun removes that directory when the job ends.
#pragma once

#include <optional>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"
#include "rendezvous/launchers/system_facts.h"

namespace rondo {

// nullopt: Open MPI did not start this process. kInvalidArgument names the variable that is missing or wrong.
// kUnsupported: the job has several hosts, and no libpmix can be loaded.
Result<std::optional<Launched>> FindOpenMpi(const Environment& environment, const SystemFacts& system);

}  // namespace rondo
