#include "rendezvous/launchers/rondo_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/net/resolve.h"
#include "rendezvous/launchers/variables.h"

namespace rondo {
namespace {

// Variables with which users configure a launcher (OMPI_MCA_btl, PMIX_MCA_ptl, OMPI_ALLOW_RUN_AS_ROOT) are not in this
// list, because a rank may itself start that launcher.
constexpr std::array<std::string_view, 13> kPrefixes{
    "OMPI_COMM_WORLD_", "OMPI_MCA_ess",  "OMPI_MCA_orte_", "PMIX_NAMESPACE", "PMIX_RANK",
    "PMIX_ID",          "PMIX_SERVER_",  "PMIX_DSTORE_",   "PMI_",           "HYDI_",
    "MPI_LOCAL",        "TORCHELASTIC_", "SLURM_STEP"};
constexpr std::array<std::string_view, 13> kWholeNames{
    "SLURM_PROCID",     "SLURM_LOCALID", "SLURM_NODEID",     "SLURM_GTIDS",     "SLURM_TASK_PID",
    "GROUP_RANK",       "ROLE_RANK",     "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "RONDO_RANK",
    "RONDO_WORLD_SIZE", "RONDO_JOIN",    "RONDO_RESTART"};

}  // namespace

Result<std::optional<Launched>> FindRondoRun(const Environment& environment) {
  const auto launcher = Lookup(environment, "RONDO_LAUNCHER");
  if (!launcher) return std::nullopt;
  const LauncherVariables variables(environment, *launcher);
  RONDO_ASSIGN(Launched launch, variables.Ranks("RANK", "WORLD_SIZE"));
  RONDO_TRY(variables.LocalRanks("LOCAL_RANK", "LOCAL_WORLD_SIZE", launch));
  RONDO_ASSIGN(const std::string store, variables.Text("RONDO_STORE"));
  const auto place = ParseHostPort(store);
  if (!place) {
    return Fail(place.error().With([&](ErrorDetails& details) {
      details.message = fmt::format("variable RONDO_STORE of {}: {}", *launcher, details.message);
    }));
  }
  launch.host = place->host;
  RONDO_ASSIGN(const std::string job, variables.Text("RONDO_JOB"));
  launch.command = fmt::format("rondo run -N {} --", launch.world_size);
  launch.evidence = "RONDO_LAUNCHER";
  launch.job = JobId(job);
  launch.ports = {place->port};
  launch.external_store = true;
  return launch;
}

bool DescribesOneProcess(std::string_view variable) {
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](auto prefix) { return variable.starts_with(prefix); }) ||
         std::find(kWholeNames.begin(), kWholeNames.end(), variable) != kWholeNames.end();
}

}  // namespace rondo
