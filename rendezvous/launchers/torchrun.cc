#include "rendezvous/launchers/torchrun.h"

#include "rendezvous/launchers/variables.h"

namespace rondo {

Result<std::optional<Launched>> FindTorchrun(const Environment& environment) {
  const LauncherVariables variables(environment, "torchrun");
  const auto run = variables.Optional("TORCHELASTIC_RUN_ID");
  if (!run) return std::nullopt;
  RONDO_ASSIGN(Launched launch, variables.Ranks("RANK", "WORLD_SIZE"));
  RONDO_TRY(variables.LocalRanks("LOCAL_RANK", "LOCAL_WORLD_SIZE", launch));
  RONDO_ASSIGN(const std::string host, variables.Text("MASTER_ADDR"));
  RONDO_ASSIGN(const std::uint16_t port, variables.Port("MASTER_PORT"));
  launch.command = "torchrun";
  launch.evidence = "TORCHELASTIC_RUN_ID";
  // The run's id is "none" for every run without an id, so the id alone does not distinguish jobs.
  launch.job = JobId(fmt::format("torchrun/{}/{}:{}", *run, host, port));
  launch.host = launch.one_host() ? "127.0.0.1" : host;
  launch.avoided_port = port;
  RONDO_TRY(variables.DerivePorts(launch));
  launch.remark = fmt::format("MASTER_PORT={} is reserved for PyTorch's own store", port);
  return launch;
}

}  // namespace rondo
