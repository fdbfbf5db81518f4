#include "rendezvous/launchers/open_mpi.h"

#include <fmt/core.h>

#include <string_view>

#include "rendezvous/launchers/variables.h"

namespace rondo {
namespace {

// Makes a file name from a job's name; characters that are unsafe in a path become '-'.
std::string FileName(std::string job) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
  for (char& c : job) {
    if (kPlain.find(c) == std::string_view::npos) c = '-';
  }
  return "rondo-" + job;
}

}  // namespace

Result<std::optional<Launched>> FindOpenMpi(const Environment& environment, const SystemFacts& system) {
  const LauncherVariables variables(environment, "mpirun of Open MPI");
  if (!variables.Has("OMPI_COMM_WORLD_RANK")) return std::nullopt;
  RONDO_ASSIGN(Launched launch, variables.Ranks("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"));
  RONDO_TRY(variables.LocalRanks("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", launch));
  launch.command = fmt::format("mpirun -n {}", launch.world_size);
  launch.evidence = "OMPI_COMM_WORLD_RANK";
  auto name = variables.Optional("PMIX_NAMESPACE");
  if (!name) {
    RONDO_ASSIGN(name, variables.Text("OMPI_MCA_ess_base_jobid"));
  }
  launch.job = JobId("openmpi/" + *name);
  launch.library = variables.Optional("RONDO_PMIX_LIBRARY").value_or("");
  launch.way = Launched::Way::kPmix;
  const Status loads = system.can_load_pmix(launch.library);
  if (loads) return launch;
  if (!launch.one_host()) {
    return Fail(ErrorCode::kUnsupported,
                "{} started ranks on several hosts, which can find each other only by PMIx, but {}; give --rendezvous "
                "or set RONDO_RENDEZVOUS",
                launch.launcher, loads.error().message());
  }
  std::string folder = "/tmp";
  for (const char* where : {"TMPDIR", "OMPI_MCA_orte_jobfam_session_dir", "PMIX_SERVER_TMPDIR"}) {
    folder = variables.Optional(where).value_or(folder);
  }
  launch.way = Launched::Way::kFile;
  launch.file = folder + "/" + FileName(*name);
  launch.remark = loads.error().message();
  return launch;
}

}  // namespace rondo
