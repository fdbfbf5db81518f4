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

// Launchers and their variables, innermost first. Slurm is recognised by the variables of its allocation, which every
// process in the allocation inherits.
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
        ". If this process is not meant to be a rank: {} made it a rank of {}, because a shell that the launcher "
        "opened passes its variables on to programs that are started by hand. Start all ranks by {} COMMAND, or this "
        "process alone by rondo run -N 1 -- COMMAND, which removes these variables",
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
      "Open MPI), SLURM_STEP_ID and SLURM_PROCID (srun), RONDO_LAUNCHER (rondo run), MASTER_ADDR and MASTER_PORT (set "
      "by hand, together with RANK and WORLD_SIZE)";
  if (IsSet(environment, "SLURM_JOB_ID")) {
    text += "; this process is in a Slurm job, but srun did not start it";
  } else if (IsSet(environment, "PMI_PORT")) {
    text += "; PMI_PORT is set, which Rondo does not support: start mpiexec without -pmi-port";
  } else if (const auto fd = Lookup(environment, "PMI_FD")) {
    text += fmt::format(
        "; PMI_FD={} is set, but a program between mpiexec and this process closed that file descriptor", *fd);
  }
  return text;
}

}  // namespace rondo
