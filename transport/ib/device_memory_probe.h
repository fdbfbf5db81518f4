// Decides by which ways adapters can reach memory of a GPU here: a pure function of facts. One fact comes from files;
// the others need an adapter to ask (memory.h).
//
// Thread rule: values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

// The ways that may be tried (IbOptions::device_memory). If a way is named, it is the only one, and no fact is checked
// before: only the adapter itself can refuse.
enum class DeviceMemoryChoice : std::uint8_t { kAuto, kDmaBuf, kPeerMemory, kNone };

namespace ib {

struct DmaBufFact {
  std::string adapter;  // "mlx5_0:1"
  int refusal = 0;      // errno; 0: it takes dma-bufs
};

struct DeviceMemoryFacts {
  bool library_has_dma_buf = false;  // ibv_reg_dmabuf_mr
  std::vector<DmaBufFact> adapters;  // of each adapter that lanes may use
  std::string peer_memory;           // the result of PeerMemoryModule
};

// The module that lets adapters reach memory of GPUs by its address: "nvidia_peermem"; "": none is loaded. `root`: the
// folder that holds /sys; a test has a tree of its own.
std::string PeerMemoryModule(const std::string& root = "");

// Why that way is impossible, and what would help; "": it may be tried.
struct DeviceMemoryWays {
  std::string no_dma_buf;
  std::string no_peer_memory;
  bool any() const { return no_dma_buf.empty() || no_peer_memory.empty(); }
};
DeviceMemoryWays DecideDeviceMemory(const DeviceMemoryFacts& facts, DeviceMemoryChoice choice);

}  // namespace ib
}  // namespace rondo
