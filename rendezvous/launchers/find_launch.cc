#include "rendezvous/launchers/find_launch.h"

#include <array>
#include <functional>
#include <utility>

#include "rendezvous/launchers/mpich.h"
#include "rendezvous/launchers/open_mpi.h"
#include "rendezvous/launchers/rondo_run.h"
#include "rendezvous/launchers/slurm.h"
#include "rendezvous/launchers/torchrun.h"

namespace rondo {
namespace {

// Who left variables, innermost first. Slurm's are told by its allocation, which holds whatever runs in it.
struct Mark {
  const char* launcher;
  const char* variable;
};
constexpr std::array kMarks{Mark{"torchrun", "TORCHELASTIC_RUN_ID"}, Mark{"MPICH", "MPI_LOCALRANKID"},
                            Mark{"Open MPI", "OMPI_COMM_WORLD_RANK"}, Mark{"Slurm", "SLURM_JOB_ID"},
                            Mark{"rondo run", "RONDO_LAUNCHER"}};

std::string Around(const Environment& environment, std::string_view launcher) {
  std::string around;
  for (const Mark& mark : kMarks) {
    if (mark.launcher == launcher || !IsSet(environment, mark.variable)) continue;
    around += fmt::format("{}{} ({})", around.empty() ? "" : " and ", mark.launcher, mark.variable);
  }
  return around;
}

}  // namespace

Result<std::optional<Launched>> FindLaunch(const Environment& environment, const SystemFacts& system) {
  using Find = std::function<Result<std::optional<Launched>>()>;
  const std::array<std::pair<const char*, Find>, kMarks.size()> finders{{
      {"torchrun", [&] { return FindTorchrun(environment); }},
      {"MPICH", [&] { return FindMpich(environment, system); }},
      {"Open MPI", [&] { return FindOpenMpi(environment, system); }},
      {"Slurm", [&] { return FindSlurm(environment, system); }},
      {"rondo run", [&] { return FindRondoRun(environment); }},
  }};
  for (const auto& [launcher, find] : finders) {
    RONDO_ASSIGN(auto launch, find());
    if (!launch) continue;
    launch->around = Around(environment, launcher);
    return launch;
  }
  return std::nullopt;
}

std::string WhatWasLookedFor(const Environment& environment) {
  std::string text =
      "TORCHELASTIC_RUN_ID (torchrun), PMI_FD (mpiexec of MPICH, srun --mpi=pmi2), OMPI_COMM_WORLD_RANK (mpirun of "
      "Open MPI), SLURM_STEP_ID and SLURM_PROCID (srun), RONDO_LAUNCHER (rondo run), MASTER_ADDR and MASTER_PORT (by "
      "hand, with RANK and WORLD_SIZE)";
  if (IsSet(environment, "SLURM_JOB_ID")) {
    text += "; this process is in a Slurm job, but srun did not start it";
  } else if (IsSet(environment, "PMI_PORT")) {
    text += "; there is PMI_PORT, which is unsupported: start mpiexec without -pmi-port";
  } else if (const auto fd = Lookup(environment, "PMI_FD")) {
    text += fmt::format("; there is PMI_FD={}, but something between mpiexec and this process closed it", *fd);
  }
  return text;
}

}  // namespace rondo
