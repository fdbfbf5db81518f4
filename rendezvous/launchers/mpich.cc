#include "rendezvous/launchers/mpich.h"

#include <fmt/core.h>

#include "rendezvous/launchers/variables.h"

namespace rondo {

Result<std::optional<Launched>> FindMpich(const Environment& environment, const SystemFacts& system) {
  const LauncherVariables variables(environment, "mpiexec of MPICH");
  // Slurm's PMI-2 sets PMI_FD too. Only Slurm sets PMI_JOBID, and only Hydra sets MPI_LOCALRANKID.
  const bool hydra = variables.Has("PMI_FD") && (variables.Has("MPI_LOCALRANKID") || !variables.Has("PMI_JOBID"));
  if (!hydra) return std::nullopt;
  RONDO_ASSIGN(const int fd, variables.Number("PMI_FD", 0, kMaxDescriptor));
  if (!system.is_socket(fd)) return std::nullopt;
  RONDO_ASSIGN(Launched launch, variables.Ranks("PMI_RANK", "PMI_SIZE"));
  RONDO_TRY(variables.LocalRanks("MPI_LOCALRANKID", "MPI_LOCALNRANKS", launch));
  launch.command = fmt::format("mpiexec -n {}", launch.world_size);
  launch.evidence = "PMI_FD";
  launch.way = Launched::Way::kPmi1;
  launch.fd = fd;
  return launch;
}

}  // namespace rondo
