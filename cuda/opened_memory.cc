#include "cuda/opened_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace rondo::cuda {

bool operator==(const PeerAllocation& one, const PeerAllocation& other) {
  return one.identity == other.identity && one.IsOfProcess(other.process, other.start) &&
         std::memcmp(&one.handle, &other.handle, sizeof one.handle) == 0;
}

Result<OpenedMemory::Opened*> OpenedMemory::Open(const Driver& driver, const PeerAllocation& what,
                                                 const std::string& gpu) {
  const std::lock_guard lock(mutex_);
  for (Opened& one : all_) {
    if (!one.is_open) continue;
    if (one.what == what) {
      ++one.users;
      return &one;
    }
    const bool overlaps =
        one.what.address < what.address + what.bytes && what.address < one.what.address + one.what.bytes;
    if (!one.what.IsOfProcess(what.process, what.start) || !overlaps) continue;
    one.is_open = false;
    driver.IpcCloseMemHandle(one.base);
  }
  CUdeviceptr base = 0;
  RONDO_TRY(driver.Check(driver.IpcOpenMemHandle(&base, what.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                         fmt::format("opening memory of process {} on {}", what.process, gpu)));
  return &all_.emplace_back(what, base);
}

void OpenedMemory::Close(const Driver& driver, Opened* opened) {
  const std::lock_guard lock(mutex_);
  if (--opened->users > 0) return;
  if (opened->is_open) driver.IpcCloseMemHandle(opened->base);
  all_.erase(std::find_if(all_.begin(), all_.end(), [&](const Opened& one) { return &one == opened; }));
}

}  // namespace rondo::cuda
