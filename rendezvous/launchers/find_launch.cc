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

// Launchers and their variables, innermost first. Slurm is recognised by its allocation, which every process in it
// inherits.
struct Mark {
  const char* launcher;
  const char* variable;
  const char* evidence;  // the variables that identify the launcher that started this process
  const char* command;   // the command that starts ranks
};
constexpr std::array kMarks{
    Mark{"torchrun", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RUN_ID", "torchrun"},
    Mark{"MPICH", "MPI_LOCALRANKID", "PMI_FD", "mpiexec -n N"},
    Mark{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "mpirun -n N"},
    Mark{"Slurm", "SLURM_JOB_ID", "SLURM_STEP_ID and SLURM_PROCID", "srun -n N"},
    Mark{"rondo run", "RONDO_LAUNCHER", "RONDO_LAUNCHER", "rondo run -N N --"},
};

// Adds a hint to the error. Incomplete or wrong variables of a launcher may come from a shell of that launcher, or may
// be set by hand. RONDO_PORTS is the user's own variable, to which the hint does not apply.
Error IfNotMeant(const Error& error, const Mark& mark) {
  if (error.message().starts_with("variable RONDO_PORTS")) return error;
  return error.With([&](ErrorDetails& details) {
    details.message += fmt::format(
        ". This process may be no rank: {} made it one of {}, and a shell that the launcher opened hands them on to "
        "what is started in it by hand. Start all ranks by {} COMMAND, or this one alone by rondo run -N 1 -- "
        "COMMAND, which takes these variables away",
        mark.evidence, mark.launcher, mark.command);
  });
}

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
  const std::array<Find, kMarks.size()> finders{
      [&] { return FindTorchrun(environment); },        [&] { return FindMpich(environment, system); },
      [&] { return FindOpenMpi(environment, system); }, [&] { return FindSlurm(environment, system); },
      [&] { return FindRondoRun(environment); },
  };
  for (std::size_t i = 0; i < finders.size(); ++i) {
    auto launch = finders[i]();
    if (!launch) return Fail(IfNotMeant(launch.error(), kMarks[i]));
    if (!*launch) continue;
    (*launch)->around = Around(environment, kMarks[i].launcher);
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
