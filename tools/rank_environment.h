// Which rank this process is, as its launcher says it in the environment.
#pragma once

#include <optional>
#include <string>

namespace rondo {

// Looks up RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE (rondo run, torchrun) also under the names that Open MPI,
// MPICH and Slurm give them; any other name as it is. For ConnectOptions::environment.
std::optional<std::string> RankEnvironment(const std::string& name);

}  // namespace rondo
