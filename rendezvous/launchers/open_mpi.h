// mpirun of Open MPI (its variables are also set by prterun), recognised by OMPI_COMM_WORLD_RANK. The ranks meet
// through its PMIx server; on one host and without a libpmix to load, in a file of the job in mpirun's own session
// directory, which mpirun removes when the job ends.
#pragma once

#include <optional>

#include "base/result.h"
#include "rendezvous/environment.h"
#include "rendezvous/launchers/launched.h"
#include "rendezvous/launchers/system_facts.h"

namespace rondo {

// nullopt: it was not Open MPI. kInvalidArgument names the variable that is missing or wrong. kUnsupported: several
// hosts, and no libpmix to load.
Result<std::optional<Launched>> FindOpenMpi(const Environment& environment, const SystemFacts& system);

}  // namespace rondo
