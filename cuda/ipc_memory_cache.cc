#include "cuda/ipc_memory_cache.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace rondo::cuda {

bool operator==(const PeerAllocation& one, const PeerAllocation& other) {
  return one.identity == other.identity && one.IsOfProcess(other.process, other.start) &&
         std::memcmp(&one.handle, &other.handle, sizeof one.handle) == 0;
}

Result<IpcMemoryCache::Opened*> IpcMemoryCache::Open(const Driver& driver, const PeerAllocation& what,
                                                     const std::string& gpu, bool may_wait) {
  const std::lock_guard lock(mutex_);
  bool in_the_way = false;
  for (Opened& one : all_) {
    if (one.is_there && one.what == what) {
      ++one.users;
      return &one;
    }
    const bool overlaps =
        one.what.address < what.address + what.bytes && what.address < one.what.address + one.what.bytes;
    if (!one.is_open || !one.what.IsOfProcess(what.process, what.start) || !overlaps) continue;
    one.is_there = false;
    if (may_wait) {
      CloseMapping(driver, one);
    } else {
      in_the_way = true;
      has_freed_ = true;
    }
  }
  const auto pid = static_cast<std::uint32_t>(what.process);
  if (in_the_way)
    return Fail(ErrorCode::kUnsupported,
                "cannot open new memory of process {} on {}: older memory, which that process has freed, is still open "
                "at the same address",
                pid, gpu);
  // The driver needs time to find out that a GPU cannot reach another one, so the result is remembered.
  for (const Unreached& one : unreached_)
    if (what.IsOfProcess(one.like.process, one.like.start) && what.device == one.like.device) return Fail(one.said);
  CUdeviceptr base = 0;
  const CUresult result = driver.IpcOpenMemHandle(&base, what.handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  const Status opened = driver.Check(result, fmt::format("opening memory of process {} on {}", pid, gpu));
  if (!opened) {
    if (result == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED) unreached_.push_back({what, opened.error()});
    return Fail(opened.error());
  }
  return &all_.emplace_back(what, base);
}

void IpcMemoryCache::CloseFreed(const Driver& driver) {
  const std::lock_guard lock(mutex_);
  has_freed_ = false;
  for (Opened& one : all_)
    if (!one.is_there) CloseMapping(driver, one);
}

void IpcMemoryCache::Close(const Driver& driver, Opened* opened) {
  const std::lock_guard lock(mutex_);
  if (--opened->users > 0) return;
  CloseMapping(driver, *opened);
  all_.erase(std::find_if(all_.begin(), all_.end(), [&](const Opened& one) { return &one == opened; }));
}

void IpcMemoryCache::CloseMapping(const Driver& driver, Opened& one) {
  if (std::exchange(one.is_open, false)) driver.IpcCloseMemHandle(one.base);
}

}  // namespace rondo::cuda
