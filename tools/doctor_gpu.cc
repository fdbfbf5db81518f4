// rondo doctor on GPUs: what the driver lets ranks do with them, and whether adapters reach their memory.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/doctor_findings.h"
#include "transport/ib/device_memory_probe.h"

namespace rondo {
namespace {

using Access = SurveyedGpu::Access;

std::string Count(std::size_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

// The GPUs whose compute mode keeps ranks out.
std::vector<Finding> JudgeAccess(const GpuSurvey& survey, const PlannedJob& job) {
  std::vector<Finding> findings;
  const std::size_t ranks = static_cast<std::size_t>(job.local_ranks);
  for (const SurveyedGpu& gpu : survey.gpus) {
    if (gpu.access == Access::kNobody)
      findings.push_back({Level::kWarn, gpu.name, "its compute mode lets no process use it",
                          "as root: nvidia-smi -c DEFAULT, or leave it out of CUDA_VISIBLE_DEVICES"});
    // MPS is the one process, whose clients may be many.
    if (gpu.access == Access::kOneProcess && !gpu.mps && job.ranks_given && ranks > survey.gpus.size())
      findings.push_back({Level::kWarn, gpu.name,
                          fmt::format("its compute mode lets one process use it at a time, and {} are to share {}",
                                      Count(ranks, "rank"), Count(survey.gpus.size(), "GPU")),
                          "as root: nvidia-smi -c DEFAULT, or start MPS: nvidia-cuda-mps-control -d"});
  }
  return findings;
}

Finding JudgeSharing(const GpuSurvey& survey, const PlannedJob& job) {
  const std::size_t ranks = static_cast<std::size_t>(job.local_ranks);
  const std::string subject = "sharing";
  const bool mps = std::all_of(survey.gpus.begin(), survey.gpus.end(), [](const SurveyedGpu& gpu) { return gpu.mps; });
  if (mps) return {Level::kOk, subject, "MPS serves ranks that share a GPU side by side"};
  if (!job.ranks_given || ranks <= survey.gpus.size())
    return {Level::kOk, subject,
            "ranks that share a GPU get it by turns, as MPS does not run; one to each do not care"};
  return {Level::kWarn, subject,
          fmt::format("{} share {} and get it by turns, for MPS does not run: short operations go by way of the host, "
                      "long ones at less than half the speed",
                      Count(ranks, "rank"), Count(survey.gpus.size(), "GPU")),
          "start MPS: nvidia-cuda-mps-control -d"};
}

std::vector<Finding> JudgeDriver(const Result<GpuSurvey>& survey, const PlannedJob& job) {
  if (!survey)
    return {{Level::kWarn, "driver",
             fmt::format("operations on memory of GPUs will be refused: {}", survey.error().message()),
             "see whether nvidia-smi works; where there are NVSwitches, nvidia-fabricmanager has to run"}};
  const int version = survey->driver_version;
  std::vector<Finding> findings = JudgeAccess(*survey, job);
  if (findings.empty()) findings.push_back(JudgeSharing(*survey, job));
  findings.insert(findings.begin(), {Level::kOk, "driver",
                                     fmt::format("finds {}, for CUDA up to {}.{}", Count(survey->gpus.size(), "GPU"),
                                                 version / 1000, version % 1000 / 10)});
  return findings;
}

Finding JudgeReach(const GpuFacts& gpu) {
  const std::string subject = "RDMA";
  ib::DeviceMemoryWays ways = ib::DecideDeviceMemory(gpu.reach, DeviceMemoryChoice::kAuto);
  if (!gpu.open_driver) ways.no_dma_buf = "the driver's kernel modules are not the open ones, and hand out none";
  if (ways.no_dma_buf.empty())
    return {Level::kOk, subject, "the open driver hands memory of GPUs out as dma-buf, and adapters take it"};
  if (ways.no_peer_memory.empty())
    return {Level::kOk, subject, fmt::format("adapters may reach memory of GPUs ({})", gpu.reach.peer_memory)};
  return {Level::kWarn, subject,
          fmt::format("adapters cannot reach memory of GPUs, so every byte goes through the host's (by dma-buf: {}. By "
                      "peer memory: {})",
                      ways.no_dma_buf, ways.no_peer_memory),
          "modprobe nvidia_peermem, or the driver's open kernel modules (dma-buf)"};
}

}  // namespace

std::vector<Finding> JudgeGpu(const GpuFacts& gpu, const RdmaFacts& rdma, const PlannedJob& job) {
  if (gpu.nvidia_gpus == 0 && !gpu.survey) return {};
  std::vector<Finding> findings = JudgeDriver(gpu.survey, job);
  if (!rdma.ports.empty()) findings.push_back(JudgeReach(gpu));
  return findings;
}

}  // namespace rondo
