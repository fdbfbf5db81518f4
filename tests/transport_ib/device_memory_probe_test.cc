// Tests the choice of the method by which adapters access GPU memory, on invented facts that lead to every possible
// result.
#include "transport/ib/device_memory_probe.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <string>

#include "tests/support/file_tree.h"

namespace rondo::ib {
namespace device_memory_probe_test {

bool Has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

// The facts of a machine that supports dma-buf and peer memory.
DeviceMemoryFacts Able() {
  return {.library_has_dma_buf = true,
          .adapters = {{.adapter = "mlx5_0:1", .refusal = 0}, {.adapter = "mlx5_1:1", .refusal = 0}},
          .peer_memory = "nvidia_peermem"};
}

TEST_CASE("where all can both ways may be tried") {
  const DeviceMemoryWays ways = DecideDeviceMemory(Able(), DeviceMemoryChoice::kAuto);
  CHECK(ways.no_dma_buf.empty());
  CHECK(ways.no_peer_memory.empty());
}

TEST_CASE("a library that is too old, and an adapter that cannot, are reported by name, and peer memory is left") {
  DeviceMemoryFacts old = Able();
  old.library_has_dma_buf = false;
  DeviceMemoryWays ways = DecideDeviceMemory(old, DeviceMemoryChoice::kAuto);
  CHECK(Has(ways.no_dma_buf, "libibverbs has no ibv_reg_dmabuf_mr; rdma-core 34"));
  CHECK(ways.no_peer_memory.empty());

  DeviceMemoryFacts one_cannot = Able();
  one_cannot.adapters[1].refusal = EOPNOTSUPP;
  ways = DecideDeviceMemory(one_cannot, DeviceMemoryChoice::kAuto);
  CHECK(Has(ways.no_dma_buf, "mlx5_1:1 does not accept a dma-buf (Operation not supported)"));
  CHECK(!Has(ways.no_dma_buf, "mlx5_0"));
  CHECK(Has(ways.no_dma_buf, "Linux 5.12"));
  CHECK(ways.no_peer_memory.empty());
}

TEST_CASE("without the module dma-buf is left, and how to load it is said") {
  DeviceMemoryFacts facts = Able();
  facts.peer_memory.clear();
  const DeviceMemoryWays ways = DecideDeviceMemory(facts, DeviceMemoryChoice::kAuto);
  CHECK(ways.no_dma_buf.empty());
  CHECK(Has(ways.no_peer_memory, "modprobe nvidia_peermem"));
}

TEST_CASE("where there is no adapter there is no dma-buf either") {
  CHECK(Has(
      DecideDeviceMemory({.library_has_dma_buf = true, .adapters = {}, .peer_memory = ""}, DeviceMemoryChoice::kAuto)
          .no_dma_buf,
      "no adapter"));
}

TEST_CASE("a way that is named is tried whatever is known, and no other") {
  DeviceMemoryFacts neither = Able();
  neither.adapters[0].refusal = EOPNOTSUPP;
  neither.peer_memory.clear();
  DeviceMemoryWays ways = DecideDeviceMemory(neither, DeviceMemoryChoice::kDmaBuf);
  CHECK(ways.no_dma_buf.empty());
  CHECK(Has(ways.no_peer_memory, "not allowed"));
  ways = DecideDeviceMemory(neither, DeviceMemoryChoice::kPeerMemory);
  CHECK(Has(ways.no_dma_buf, "not allowed"));
  CHECK(ways.no_peer_memory.empty());
  // If libibverbs lacks the function for dma-bufs, even a user's choice of dma-buf is not tried, because there is no
  // function to call.
  neither.library_has_dma_buf = false;
  CHECK(!DecideDeviceMemory(neither, DeviceMemoryChoice::kDmaBuf).no_dma_buf.empty());

  ways = DecideDeviceMemory(Able(), DeviceMemoryChoice::kNone);
  CHECK(Has(ways.no_dma_buf, "not allowed"));
  CHECK(Has(ways.no_peer_memory, "not allowed"));
}

TEST_CASE("modules are found by the kernel's own name and by the vendor's, and others are not taken for them") {
  for (const auto& [path, name] : {std::pair{"/sys/module/nvidia_peermem/refcnt", "nvidia_peermem"},
                                   {"/sys/module/nv_peer_mem/version", "nv_peer_mem"},
                                   {"/sys/kernel/mm/memory_peers/nv_mem/version", "nv_mem"},
                                   {"/sys/kernel/mm/memory_peers/nv_mem_nc/version", "nv_mem_nc"}}) {
    testing::FileTree tree;
    tree.File("/sys/module/nvidia/refcnt").File("/sys/module/nvidia_uvm/refcnt");
    CHECK(PeerMemoryModule(tree.root()).empty());
    tree.File(path);
    CHECK(PeerMemoryModule(tree.root()) == name);
  }
}

}  // namespace device_memory_probe_test
}  // namespace rondo::ib
