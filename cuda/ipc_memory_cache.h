// The allocations of other processes that are open on a GPU of this process. All communicators of the process share one
// cache, because the driver does not open an allocation while an older one of the same process, at an overlapping
// address, is open. Another communicator may have the older one open long after that process has freed it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "cuda/driver.h"

namespace rondo::cuda {

struct PeerAllocation {
  CUipcMemHandle handle{};
  std::uint64_t identity = 0;  // unique in the process that allocated it
  std::uint64_t address = 0;   // address in the process that allocated it
  std::uint64_t bytes = 0;
  std::uint64_t process = 0;           // lower half: process id; upper half: inode of its pid namespace
  std::uint64_t start = 0;             // start time of the process; distinguishes processes with the same id
  std::array<std::byte, 16> device{};  // UUID of the GPU

  bool IsOfProcess(std::uint64_t number, std::uint64_t began) const { return process == number && start == began; }
};
bool operator==(const PeerAllocation& one, const PeerAllocation& other);

// Thread rule: any thread that has a Gpu::Use.
class IpcMemoryCache {
 public:
  struct Opened {
    Opened(const PeerAllocation& what_it_is, CUdeviceptr at) : what(what_it_is), base(at) {}
    const PeerAllocation what;
    const CUdeviceptr base;
    std::atomic<bool> is_there{true};  // false when the other process is known to have freed the memory
    // Guarded by the cache's mutex.
    bool is_open = true;
    int users = 1;
  };
  // Opens memory of another process, or adds a user if it is already open. Every Open needs a Close. If older memory of
  // the same process is open at overlapping addresses, that process must have freed it. So Open first closes the older
  // memory, even if it has users, because no rank reads freed memory. Closing may block until the device is idle. If
  // `may_wait` is false, Open closes nothing. Instead it fails (kUnsupported) until CloseFreed has closed the older
  // memory. `gpu` is the GPU's name for errors.
  Result<Opened*> Open(const Driver& driver, const PeerAllocation& what, const std::string& gpu, bool may_wait);
  // Whether there is freed memory for CloseFreed to close.
  bool HasFreed() const { return has_freed_.load(std::memory_order_relaxed); }
  // CloseFreed and Close may block until the device is idle. Close removes one user; the last user's Close closes the
  // memory.
  void CloseFreed(const Driver& driver);
  void Close(const Driver& driver, Opened* opened);

 private:
  // A GPU that another process uses and that this GPU cannot reach, and the driver's error.
  struct Unreached {
    PeerAllocation like;
    Error said;
  };
  static void CloseMapping(const Driver& driver, Opened& one);

  std::mutex mutex_;
  std::atomic<bool> has_freed_{false};
  std::list<Opened> all_;
  std::vector<Unreached> unreached_;
};

}  // namespace rondo::cuda
