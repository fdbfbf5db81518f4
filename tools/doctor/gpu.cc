// rondo doctor: judges how ranks can use GPUs, and whether RDMA adapters can access GPU memory.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tools/doctor/findings.h"
#include "transport/ib/device_memory_probe.h"

namespace rondo {
namespace {

using Access = SurveyedGpu::Access;

std::string Count(std::size_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::size_t Usable(const GpuSurvey& survey) {
  return static_cast<std::size_t>(std::count_if(survey.gpus.begin(), survey.gpus.end(), [](const SurveyedGpu& gpu) {
    return gpu.access != Access::kProhibited;
  }));
}

// Whether ranks will have to share GPUs. This is known only if the user has given the number of ranks and this process
// sees all GPUs of the host; otherwise other ranks may see other GPUs.
bool WillShare(const GpuFacts& facts, const PlannedJob& job) {
  const bool sees_all = static_cast<std::size_t>(facts.nvidia_gpus) <= facts.survey->gpus.size();
  return job.ranks_given && sees_all && static_cast<std::size_t>(job.local_ranks) > Usable(*facts.survey);
}

std::string WhoShares(const GpuFacts& facts, const PlannedJob& job) {
  return fmt::format("{} share {}", Count(static_cast<std::size_t>(job.local_ranks), "rank"),
                     Count(Usable(*facts.survey), "GPU"));
}

// Finds GPUs whose compute mode keeps ranks from using them.
std::vector<Finding> JudgeAccess(const GpuFacts& facts, const PlannedJob& job) {
  std::vector<Finding> findings;
  for (const SurveyedGpu& gpu : facts.survey->gpus) {
    const std::string open = fmt::format("as root: nvidia-smi -i {} -c DEFAULT", gpu.pci_address);
    if (gpu.access == Access::kProhibited)
      findings.push_back({Level::kWarn, gpu.name, "its compute mode lets no process use it",
                          open + ", or leave it out of CUDA_VISIBLE_DEVICES"});
    // MPS counts as one process and can have many clients.
    if (gpu.access == Access::kOneProcess && gpu.mps == false && WillShare(facts, job))
      findings.push_back(
          {Level::kWarn, gpu.name,
           fmt::format("its compute mode lets one process use it at a time, but {}", WhoShares(facts, job)),
           open + ", or start MPS: nvidia-cuda-mps-control -d"});
  }
  return findings;
}

Finding JudgeSharing(const GpuFacts& facts, const PlannedJob& job) {
  const std::string subject = "sharing";
  const auto any = [&](auto is) { return std::any_of(facts.survey->gpus.begin(), facts.survey->gpus.end(), is); };
  if (any([](const SurveyedGpu& gpu) { return !gpu.mps.has_value(); }))
    return {Level::kOk, subject,
            "this driver does not report whether MPS runs; without MPS, ranks that share a GPU are time-sliced"};
  if (!any([](const SurveyedGpu& gpu) { return gpu.mps == false; }))
    return {Level::kOk, subject, "MPS runs, so ranks that share a GPU can run on it at the same time"};
  if (any([](const SurveyedGpu& gpu) { return gpu.access == Access::kOneProcess; }))
    return {Level::kOk, subject,
            "fine with one rank on each GPU; the compute modes of the GPUs refuse a second process"};
  if (!WillShare(facts, job))
    return {Level::kOk, subject,
            "fine with one rank on each GPU; ranks that share a GPU would be time-sliced, because MPS does not run"};
  return {Level::kWarn, subject,
          fmt::format("{} and are time-sliced, because MPS does not run: short operations use host staging, long ones "
                      "run at less than half the speed, and operations in CUDA graphs take milliseconds",
                      WhoShares(facts, job)),
          "start MPS: nvidia-cuda-mps-control -d"};
}

std::vector<Finding> JudgeDriver(const GpuFacts& facts, const PlannedJob& job) {
  const std::string subject = "driver";
  if (!facts.survey) {
    const std::string& why = facts.survey.error().message();
    return {{Level::kWarn, subject, fmt::format("operations on GPU memory will fail: {}", why),
             facts.built_with_cuda ? "check whether nvidia-smi works, and which GPUs CUDA_VISIBLE_DEVICES allows; with "
                                     "NVSwitches, nvidia-fabricmanager must run"
                                   : "use a build of Rondo with CUDA"}};
  }
  const std::size_t found = facts.survey->gpus.size();
  const auto there = static_cast<std::size_t>(facts.nvidia_gpus);
  const int version = facts.survey->driver_version;
  std::vector<Finding> findings = JudgeAccess(facts, job);
  if (findings.empty()) findings.push_back(JudgeSharing(facts, job));
  findings.insert(findings.begin(), {Level::kOk, subject,
                                     fmt::format("finds {}; CUDA up to {}.{}",
                                                 there > found ? fmt::format("{} of {}", found, Count(there, "GPU"))
                                                               : Count(found, "GPU"),
                                                 version / 1000, version % 1000 / 10)});
  return findings;
}

Finding JudgeReach(const GpuFacts& gpu) {
  const std::string subject = "RDMA";
  ib::DeviceMemoryWays ways = ib::DecideDeviceMemory(gpu.reach, DeviceMemoryChoice::kAuto);
  if (!gpu.open_driver)
    ways.no_dma_buf = "the driver's kernel modules are not the open ones, so they export no dma-buf";
  if (ways.no_dma_buf.empty())
    return {Level::kOk, subject, "the open driver exports GPU memory as dma-buf, and the adapters accept it"};
  if (ways.no_peer_memory.empty())
    return {Level::kOk, subject, fmt::format("adapters can reach GPU memory ({})", gpu.reach.peer_memory)};
  return {Level::kWarn, subject,
          fmt::format(
              "adapters cannot reach GPU memory, so every byte goes through host memory (dma-buf: {}. Peer memory: {})",
              ways.no_dma_buf, ways.no_peer_memory),
          "modprobe nvidia_peermem, or install the driver's open kernel modules (for dma-buf)"};
}

}  // namespace

std::vector<Finding> JudgeGpu(const GpuFacts& gpu, const RdmaFacts& rdma, const PlannedJob& job) {
  // On a host without GPUs a missing driver is not reported.
  if (gpu.nvidia_gpus == 0 && !gpu.survey && gpu.survey.error().code() == ErrorCode::kUnsupported) return {};
  std::vector<Finding> findings = JudgeDriver(gpu, job);
  if (!rdma.ports.empty()) findings.push_back(JudgeReach(gpu));
  return findings;
}

}  // namespace rondo
