#include "transport/ib/device_memory_probe.h"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace rondo::ib {
namespace {

struct Sign {
  const char* path;
  const char* name;
};
// With the kernel's own RDMA stack, the driver's module is in /sys/module. A vendor's RDMA stack that replaces the
// kernel's also lists, in /sys/kernel/mm/memory_peers, the modules that have registered with it.
constexpr std::array<Sign, 4> kSigns{{{"/sys/module/nvidia_peermem", "nvidia_peermem"},
                                      {"/sys/module/nv_peer_mem", "nv_peer_mem"},
                                      {"/sys/kernel/mm/memory_peers/nv_mem", "nv_mem"},
                                      {"/sys/kernel/mm/memory_peers/nv_mem_nc", "nv_mem_nc"}}};

std::string WhyNoDmaBuf(const DeviceMemoryFacts& facts) {
  if (!facts.library_has_dma_buf) return "libibverbs has no ibv_reg_dmabuf_mr; rdma-core 34 or newer has it";
  if (facts.adapters.empty()) return "there is no adapter";
  std::string refused;
  for (const DmaBufFact& fact : facts.adapters)
    if (fact.refusal != 0)
      refused += fmt::format("{}{} does not accept a dma-buf ({})", refused.empty() ? "" : ", ", fact.adapter,
                             std::strerror(fact.refusal));
  if (!refused.empty())
    refused += "; dma-buf needs Linux 5.12 or newer, and a driver of the adapter that supports it, such as mlx5's";
  return refused;
}

}  // namespace

std::string PeerMemoryModule(const std::string& root) {
  std::error_code none;
  for (const Sign& sign : kSigns)
    if (std::filesystem::exists(root + sign.path, none)) return sign.name;
  return "";
}

DeviceMemoryWays DecideDeviceMemory(const DeviceMemoryFacts& facts, DeviceMemoryChoice choice) {
  const std::string not_wanted = "it is not allowed (IbOptions::device_memory)";
  DeviceMemoryWays ways;
  switch (choice) {
    case DeviceMemoryChoice::kAuto:
      ways.no_dma_buf = WhyNoDmaBuf(facts);
      if (facts.peer_memory.empty())
        ways.no_peer_memory = "neither nvidia_peermem nor nv_peer_mem is loaded; modprobe nvidia_peermem loads it";
      break;
    case DeviceMemoryChoice::kDmaBuf:
      if (!facts.library_has_dma_buf) ways.no_dma_buf = WhyNoDmaBuf(facts);
      ways.no_peer_memory = not_wanted;
      break;
    case DeviceMemoryChoice::kPeerMemory: ways.no_dma_buf = not_wanted; break;
    case DeviceMemoryChoice::kNone: ways = {not_wanted, not_wanted}; break;
  }
  return ways;
}

}  // namespace rondo::ib
