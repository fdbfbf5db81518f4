// What the system and NVIDIA's driver tell of GPUs, and adapters of their memory.
#include <memory>
#include <utility>
#include <vector>

#include "cuda/survey.h"
#include "tools/doctor_probe.h"
#include "transport/ib/device.h"
#include "transport/ib/device_memory_probe.h"
#include "transport/ib/memory.h"
#include "transport/ib/ports.h"
#include "transport/ib/verbs_library.h"

namespace rondo {
namespace {

void AskAdapters(GpuFacts& facts) {
  const auto library = ib::LoadVerbs();
  if (!library) return;
  const auto ports = ib::EnumeratePorts(*library);
  if (!ports) return;
  std::vector<std::shared_ptr<const ib::Device>> devices;
  for (const ib::Port& port : *ports)
    if (auto device = ib::Device::Open(*library, {.port = port, .gid = {}, .reason = ""}); port.active && device)
      devices.push_back(std::move(*device));
  facts.reach = ib::FindDeviceMemoryFacts(devices);
}

}  // namespace

void AskGpu(const RdmaFacts& rdma, GpuFacts& facts) {
  facts.survey = SurveyGpus();
  const bool any = facts.nvidia_gpus > 0 || facts.survey;
  if (any && !rdma.ports.empty()) AskAdapters(facts);
}

void ReadGpu(const HostFiles& files, GpuFacts& facts) {
  for (const std::string& name : files.List("/dev"))
    facts.nvidia_gpus += name.starts_with("nvidia") && ParseNumber(name.substr(6)).has_value();
  facts.reach.peer_memory = ib::PeerMemoryModule(files.Path(""));
  facts.open_driver =
      files.Text("/proc/driver/nvidia/version").value_or("").find("Open Kernel Module") != std::string::npos;
}

}  // namespace rondo
