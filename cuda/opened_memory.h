// Allocations of other processes that are open on a GPU of this one: one table for all of its communicators. For no
// driver opens memory where something older of the same process and addresses is open still; and that may be so for
// another communicator, long after it was freed there.
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
  std::uint64_t identity = 0;  // in its process
  std::uint64_t address = 0;   // there
  std::uint64_t bytes = 0;
  std::uint64_t process = 0;           // its pid, and above that the number of the namespace which gave it
  std::uint64_t start = 0;             // when that began, which tells it from others of its number
  std::array<std::byte, 16> device{};  // the GPU, by its UUID

  bool IsOfProcess(std::uint64_t number, std::uint64_t began) const { return process == number && start == began; }
};
bool operator==(const PeerAllocation& one, const PeerAllocation& other);

// Thread rule: any thread, with the GPU in use (Gpu::Use).
class OpenedMemory {
 public:
  struct Opened {
    Opened(const PeerAllocation& what_it_is, CUdeviceptr at) : what(what_it_is), base(at) {}
    const PeerAllocation what;
    const CUdeviceptr base;
    std::atomic<bool> is_there{true};  // until it is known to have been freed there
    // Guarded by the table.
    bool is_open = true;
    int users = 1;
  };
  // Counts another user, until Close. What is open of the same addresses has been freed there, and is closed before,
  // whoever uses it: nobody reads what is freed. But closing may take until the device has nothing to do; unless that
  // is allowed it is left to CloseFreed, and until then this fails. `gpu` is its name, for errors.
  Result<Opened*> Open(const Driver& driver, const PeerAllocation& what, const std::string& gpu, bool may_wait);
  // Whether that has been left to CloseFreed.
  bool HasFreed() const { return has_freed_.load(std::memory_order_relaxed); }
  // Both may take until the device has nothing to do. The last user's Close closes.
  void CloseFreed(const Driver& driver);
  void Close(const Driver& driver, Opened* opened);

 private:
  // A GPU that this one does not reach, as a process has it, and what the driver said of that.
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
