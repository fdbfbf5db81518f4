// By which ways adapters can reach memory of a GPU here: a decision, a pure function of facts; and the one fact that
// files tell. The others take an adapter to ask (memory.h).
//
// Thread rule: values; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo {

// Which ways may be tried (IbOptions::device_memory). One that is named is the only one that is tried, and without
// asking beforehand whether it can work: whatever is refused, the adapter itself then refuses.
enum class DeviceMemoryChoice : std::uint8_t { kAuto, kDmaBuf, kPeerMemory, kNone };

namespace ib {

struct DmaBufFact {
  std::string adapter;  // "mlx5_0:1"
  int refusal = 0;      // errno; 0: it takes memory as dma-buf
};

struct DeviceMemoryFacts {
  bool library_has_dma_buf = false;  // ibv_reg_dmabuf_mr
  std::vector<DmaBufFact> adapters;  // of each by which lanes may go
  std::string peer_memory;           // of PeerMemoryModule
};

// What would let adapters reach memory of GPUs by its address: "nvidia_peermem"; "": nothing of the kind is loaded.
// `root` stands before "/sys": a test has a tree of its own.
std::string PeerMemoryModule(const std::string& root = "");

// Why not, in words that say what would help; "": it may be tried.
struct DeviceMemoryWays {
  std::string no_dma_buf;
  std::string no_peer_memory;
  bool any() const { return no_dma_buf.empty() || no_peer_memory.empty(); }
};
DeviceMemoryWays DecideDeviceMemory(const DeviceMemoryFacts& facts, DeviceMemoryChoice choice);

}  // namespace ib
}  // namespace rondo
