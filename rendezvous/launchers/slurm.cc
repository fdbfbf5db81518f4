#include "rendezvous/launchers/slurm.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "rendezvous/launchers/variables.h"
#include "rendezvous/membership.h"

namespace rondo {
namespace {

// Slurm gives its own steps (a batch script, the shell of salloc) the highest numbers. These steps are not ranks.
bool IsNoStepOfSrun(std::string_view step) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), number);
  return error == std::errc{} && end == step.data() + step.size() && number >= 0xfffffff0;
}

// The host of rank 0, which serves the store: the step's first node, unless the user placed the tasks.
Result<std::string> HostOfRank0(const LauncherVariables& variables, const Launched& launch) {
  if (launch.one_host()) return "127.0.0.1";
  if (variables.Optional("SLURM_DISTRIBUTION").value_or("").starts_with("arbitrary") ||
      (launch.rank == 0 && variables.Optional("SLURM_NODEID").value_or("0") != "0")) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: with SLURM_DISTRIBUTION=arbitrary the node of rank 0 is unknown, because it need not be the first "
                "node; use srun --mpi=pmi2, give --rendezvous or set RONDO_RENDEZVOUS",
                launch.launcher);
  }
  RONDO_ASSIGN(const std::string nodes, variables.Text("SLURM_STEP_NODELIST"));
  if (const auto first = FirstNode(nodes)) return *first;
  return Fail(ErrorCode::kInvalidArgument, "variable SLURM_STEP_NODELIST of {} is '{}'; expected a list of nodes",
              launch.launcher, nodes);
}

Status CountLocalRanks(const LauncherVariables& variables, Launched& launch) {
  RONDO_ASSIGN(const int nodes, variables.Number("SLURM_STEP_NUM_NODES", 1, kMaxWorldSize));
  const auto tasks = variables.Optional("SLURM_STEP_TASKS_PER_NODE");
  if (nodes == 1) {
    launch.local_world_size = launch.world_size;
  } else if (tasks && variables.Has("SLURM_NODEID")) {
    RONDO_ASSIGN(const int node, variables.Number("SLURM_NODEID", 0, nodes - 1));
    launch.local_world_size = TasksOnNode(*tasks, node);
  }
  return variables.LocalRanks("SLURM_LOCALID", "", launch);
}

}  // namespace

Result<std::optional<Launched>> FindSlurm(const Environment& environment, const SystemFacts& system) {
  const LauncherVariables variables(environment, "srun of Slurm");
  const auto step = variables.Optional("SLURM_STEP_ID");
  if (!step || IsNoStepOfSrun(*step) || !variables.Has("SLURM_PROCID")) return std::nullopt;
  RONDO_ASSIGN(Launched launch, variables.Ranks("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"));
  RONDO_TRY(CountLocalRanks(variables, launch));
  launch.evidence = "SLURM_STEP_ID";
  launch.command = fmt::format("srun -n {}", launch.world_size);
  RONDO_ASSIGN(const std::string job, variables.Text("SLURM_JOB_ID"));
  // A job that Slurm restarts keeps its number, so the restart count is a part of the id.
  launch.job =
      JobId(fmt::format("slurm/{}/{}.{}/{}", variables.Optional("SLURM_CLUSTER_NAME").value_or(""), job,
                        *variables.Optional("SLURM_STEP_ID"), variables.Optional("SLURM_RESTART_COUNT").value_or("0")));

  if (variables.Has("PMI_FD") && variables.Has("PMI_JOBID") && !variables.Has("MPI_LOCALRANKID")) {
    RONDO_ASSIGN(launch.fd, variables.Number("PMI_FD", 0, kMaxDescriptor));
    if (system.is_socket(launch.fd)) {
      launch.evidence += " and PMI_JOBID";
      launch.way = Launched::Way::kPmi2;
      launch.pmi_job = *variables.Optional("PMI_JOBID");
      return launch;
    }
    launch.remark = fmt::format("PMI_FD={} is closed", launch.fd);
  }
  if (variables.Optional("PMIX_NAMESPACE").value_or("").starts_with("slurm.pmix.")) {
    launch.evidence += " and PMIX_NAMESPACE";
    launch.library = variables.Optional("RONDO_PMIX_LIBRARY").value_or("");
    const Status loads = system.can_load_pmix(launch.library);
    if (loads) {
      launch.way = Launched::Way::kPmix;
      return launch;
    }
    launch.remark = loads.error().message();
  }
  RONDO_ASSIGN(launch.host, HostOfRank0(variables, launch));
  RONDO_TRY(variables.DerivePorts(launch));
  return launch;
}

std::optional<std::string> FirstNode(std::string_view list) {
  std::string node;
  while (!list.empty() && list.front() != ',') {
    if (list.front() != '[') {
      node += list.front();
      list.remove_prefix(1);
      continue;
    }
    const std::size_t close = list.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view numbers = list.substr(1, close - 1);
    const std::string_view first = numbers.substr(0, numbers.find_first_of("-,"));
    if (first.empty() || first.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    node += first;
    list.remove_prefix(close + 1);
  }
  return node.empty() || node.find(']') != std::string::npos ? std::nullopt : std::optional(node);
}

std::optional<int> TasksOnNode(std::string_view list, int node) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const std::size_t times = item.find("(x");
    const auto tasks = ParseNumber("", item.substr(0, times), 1, kMaxWorldSize);
    int nodes = 1;
    if (times != std::string_view::npos) {
      if (!item.ends_with(')')) return std::nullopt;
      const auto repeated = ParseNumber("", item.substr(times + 2, item.size() - times - 3), 1, kMaxWorldSize);
      if (!repeated) return std::nullopt;
      nodes = *repeated;
    }
    if (!tasks) return std::nullopt;
    if (node < nodes) return *tasks;
    node -= nodes;
  }
  return std::nullopt;
}

}  // namespace rondo
