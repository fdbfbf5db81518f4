// Allocations of other processes that are open on a GPU of this one: one table for all of its communicators. For no
// driver opens memory where something older of the same process and addresses is open still; and that may be so for
// another communicator, long after it was freed there.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>

#include "base/result.h"
#include "cuda/driver.h"

namespace rondo::cuda {

struct PeerAllocation {
  CUipcMemHandle handle{};
  std::uint64_t identity = 0;  // in its process
  std::uint64_t address = 0;   // there
  std::uint64_t bytes = 0;
  std::uint64_t process = 0;  // pid
  std::uint64_t start = 0;    // when that began, which tells it from others of its number

  bool IsOfProcess(std::uint64_t pid, std::uint64_t began) const { return process == pid && start == began; }
};
bool operator==(const PeerAllocation& one, const PeerAllocation& other);

// Thread rule: any thread, with the GPU in use (Gpu::Use).
class OpenedMemory {
 public:
  struct Opened {
    Opened(const PeerAllocation& what_it_is, CUdeviceptr at) : what(what_it_is), base(at) {}
    const PeerAllocation what;
    const CUdeviceptr base;
    std::atomic<bool> is_open{true};  // until it is known to have been freed there
    int users = 1;                    // guarded by the table
  };
  // Counts another user, until Close. What is open of the same addresses is closed before, whoever uses it: it has been
  // freed, and nobody reads what is freed.
  // `gpu` is its name, for errors.
  Result<Opened*> Open(const Driver& driver, const PeerAllocation& what, const std::string& gpu);
  // The last user's closes it.
  void Close(const Driver& driver, Opened* opened);

 private:
  std::mutex mutex_;
  std::list<Opened> all_;
};

}  // namespace rondo::cuda
