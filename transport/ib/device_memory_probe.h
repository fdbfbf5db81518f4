// Decides by which methods the RDMA adapters of this machine can reach memory of a GPU: a pure function of facts. One
// fact is read from files; the others are results of calls to an adapter (memory.h).
//
// Thread rule: plain values; any thread may call the functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

// The methods that may be tried (IbOptions::device_memory). kAuto checks the facts first. If one method is chosen, only
// this method is tried, even if a fact suggests that it will fail. A fact can mislead, but the adapter's own refusal
// cannot. One fact always counts: without ibv_reg_dmabuf_mr there is no dma-buf.
enum class DeviceMemoryChoice : std::uint8_t { kAuto, kDmaBuf, kPeerMemory, kNone };

namespace ib {

struct DmaBufFact {
  std::string adapter;  // "mlx5_0:1"
  int refusal = 0;      // the errno with which the adapter refuses dma-bufs; 0: it takes them
};

struct DeviceMemoryFacts {
  bool library_has_dma_buf = false;  // libibverbs has ibv_reg_dmabuf_mr
  std::vector<DmaBufFact> adapters;  // a fact for each adapter that lanes may use
  std::string peer_memory;           // the result of PeerMemoryModule
};

// The loaded module that lets adapters reach memory of GPUs by its address: "nvidia_peermem"; "": no such module is
// loaded. `root`: the folder that contains /sys; a test passes its own tree.
std::string PeerMemoryModule(const std::string& root = "");

// For each method: the reason why it is impossible, and a remedy; "": the method may be tried.
struct DeviceMemoryWays {
  std::string no_dma_buf;
  std::string no_peer_memory;
  bool any() const { return no_dma_buf.empty() || no_peer_memory.empty(); }
};
DeviceMemoryWays DecideDeviceMemory(const DeviceMemoryFacts& facts, DeviceMemoryChoice choice);

}  // namespace ib
}  // namespace rondo
