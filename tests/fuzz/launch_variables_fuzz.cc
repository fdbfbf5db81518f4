// rendezvous/launchers: the environment variables by which launchers are recognised, with any values that a cluster may
// set.
//
// An input consists of lines NAME=VALUE. If several lines have the same name, the first of them counts.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "rendezvous/launchers/find_launch.h"
#include "rendezvous/launchers/slurm.h"
#include "rendezvous/membership.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::launch_variables_fuzz {
std::map<std::string, std::string> Variables(std::string_view input) {
  std::map<std::string, std::string> variables;
  while (!input.empty()) {
    const std::string_view line = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(input.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return variables;
}

void CheckLaunch(const Launched& launch) {
  RONDO_HOLDS(!launch.launcher.empty() && !launch.evidence.empty());
  RONDO_HOLDS(launch.world_size >= 1 && launch.world_size <= kMaxWorldSize);
  RONDO_HOLDS(launch.rank >= 0 && launch.rank < launch.world_size, "rank {} of {}", launch.rank, launch.world_size);
  if (launch.local_world_size) RONDO_HOLDS(*launch.local_world_size >= 1);
  if (launch.local_rank) RONDO_HOLDS(*launch.local_rank >= 0);
  RONDO_HOLDS(launch.job.size() <= kMaxJobIdBytes);
  if (launch.way == Launched::Way::kTcp) RONDO_HOLDS(!launch.host.empty() && !launch.ports.empty());
  if (launch.way == Launched::Way::kFile) RONDO_HOLDS(!launch.file.empty());
  if (launch.way == Launched::Way::kPmi1 || launch.way == Launched::Way::kPmi2) RONDO_HOLDS(launch.fd >= 0);
  RONDO_HOLDS(!launch.Describe().empty());
}

Corpus HarnessCorpus() {
  // Seeds are added one by one, because each has several lines of a launcher's environment.
  std::vector<std::string> seeds;
  seeds.emplace_back(
      "SLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_STEP_NUM_TASKS=4\nSLURM_STEP_NUM_NODES=2\n"
      "SLURM_STEP_TASKS_PER_NODE=2(x2)\nSLURM_NODEID=0\nSLURM_LOCALID=1\nSLURM_JOB_ID=6\n"
      "SLURM_STEP_NODELIST=n[007-012,20],login\n");
  seeds.emplace_back(
      "SLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_STEP_NUM_TASKS=2\nSLURM_STEP_NUM_NODES=1\nSLURM_JOB_ID=6\n"
      "PMI_FD=7\nPMI_JOBID=6.0\n");
  seeds.emplace_back("PMI_FD=7\nPMI_RANK=1\nPMI_SIZE=2\nMPI_LOCALRANKID=1\nMPI_LOCALNRANKS=2\n");
  seeds.emplace_back(
      "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=1\n"
      "OMPI_COMM_WORLD_LOCAL_SIZE=2\nPMIX_NAMESPACE=1\nPMIX_RANK=1\n");
  seeds.emplace_back(
      "TORCHELASTIC_RUN_ID=none\nRANK=1\nWORLD_SIZE=2\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\n"
      "MASTER_ADDR=127.0.0.1\nMASTER_PORT=29500\nTORCHELASTIC_USE_AGENT_STORE=True\n");
  seeds.emplace_back(
      "RONDO_LAUNCHER=rondo run\nRANK=1\nWORLD_SIZE=2\nMASTER_ADDR=127.0.0.1\nMASTER_PORT=29500\n"
      "RONDO_STORE=127.0.0.1:29501\nRONDO_JOB=j\n");
  return {.seeds = std::move(seeds),
          .words = {"SLURM_", "PMI_", "OMPI_COMM_WORLD_", "PMIX_", "TORCHELASTIC_RUN_ID=", "RONDO_LAUNCHER=", "(x",
                    "[0-", "65536", "=-1\n"}};
}

void CheckInput(std::string_view input) {
  const auto variables = Variables(input);
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const Allocations allocations;
  for (const bool all_is_there : {true, false}) {
    const SystemFacts system{.is_socket = [&](int) { return all_is_there; },
                             .can_load_pmix = [&](const std::string&) -> Status {
                               if (all_is_there) return {};
                               return Fail(ErrorCode::kUnsupported, "no libpmix here");
                             }};
    const auto launch = FindLaunch(environment, system);
    CheckError(launch);
    if (launch && *launch) CheckLaunch(**launch);
  }
  RONDO_HOLDS(!WhatWasLookedFor(environment).empty());
  if (const auto node = FirstNode(input)) RONDO_HOLDS(!node->empty() && node->size() <= input.size());
  for (const int node : {0, 1, 65535}) {
    if (const auto tasks = TasksOnNode(input, node)) RONDO_HOLDS(*tasks >= 1 && *tasks <= kMaxWorldSize);
  }
  allocations.CheckLargest(16384 + 64 * input.size());
}

}  // namespace rondo::fuzz::launch_variables_fuzz
