// Lets a GPU work on memory of other processes by CUDA IPC. A rank exports an allocation as a handle; other ranks open
// the handle and read the memory with kernels and copies, like their own memory. This also works for ranks in one
// process and for several ranks on one GPU.
//
// Opened memory stays open, because opening takes longer than most operations. If more than kMaxOpened allocations are
// open, the least recently used ones are closed. That happens only when no operation is under way, because closing may
// wait for the device, which may wait for an operation. So if another rank frees memory, the GPU gets it back only when
// this process closes it: because of the limit, or because newer memory at the same address must be opened
// (ipc_memory_cache.h: one table for all communicators of the process). The driver gives every allocation an identity,
// so an allocation is never mistaken for a later one at the same address. Memory that a graph uses is never closed
// because of the limit.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/engine/device.h"
#include "cuda/gpu.h"
#include "cuda/ipc_memory_cache.h"
#include "cuda/reduce_kernels.h"

namespace rondo::cuda {

class Peers final : public DevicePeers {
 public:
  static constexpr std::size_t kMaxOpened = 64;

  // kUnsupported: the kernels do not run on this GPU.
  static Result<std::unique_ptr<Peers>> Make(std::shared_ptr<const Gpu> gpu);
  ~Peers() override;

  Result<MemoryHandle> Export(const std::byte* memory, std::uint64_t bytes) override;
  Result<std::byte*> Open(const MemoryHandle& handle, bool may_wait) override;
  TimeSlicedGpu time_sliced_gpu() const override { return time_sliced_gpu_; }
  Status Reduce(const DeviceReduce& reduction) override;
  Status CopyWithin(std::byte* destination, const std::byte* source, std::uint64_t bytes) override;
  Result<const std::byte*> BarrierState() override;
  std::uint64_t begun() const override { return begun_; }
  Result<std::uint64_t> Ended() override;
  void Drain() noexcept override;
  // Does what DeviceQueue::Capture promises. `report` is the GPU's address of the report.
  Status Capture(CUstream stream, const DeviceProgram& program, BarrierReport* report);
  // Keeps the barrier state when this object ends. Call it after a failure: graphs of other ranks may still be launched
  // and write to this rank's barrier state.
  void KeepBarrierState() { keeps_barrier_state_ = true; }
  // Any thread. From now on Reduce and CopyWithin fail.
  void BeginNothing() { over_.store(true); }
  // Whether CloseUnwanted has work to do. The call is cheap, because it does not enter the driver.
  bool HasUnwanted() const { return opened_.size() > kMaxOpened || gpu_->ipc_memory().HasFreed(); }
  // Closes memory that other ranks have freed. Beyond kMaxOpened allocations, also closes the least recently used ones.
  // REQUIRES: no operation is under way.
  void CloseUnwanted();
  std::size_t opened() const { return opened_.size(); }

 private:
  // The contents of a MemoryHandle.
  struct Exported {
    PeerAllocation of;         // address 0: the handle names no memory
    std::uint64_t offset = 0;  // offset of the memory in the allocation
  };
  static_assert(sizeof(Exported) <= kMemoryHandleBytes);
  struct Wanted {
    IpcMemoryCache::Opened* opened = nullptr;
    std::uint64_t last_use = 0;
    bool in_graph = false;
  };
  static constexpr std::size_t kEvents = 64;

  explicit Peers(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)), driver_(gpu_->driver()) {}
  Status Prepare();
  Status Note();
  Status MayBegin() const;
  void KeepOpen(const DeviceProgram& program);
  void Close(const Wanted& wanted) const { gpu_->ipc_memory().Close(driver_, wanted.opened); }

  const std::shared_ptr<const Gpu> gpu_;
  const Driver& driver_;
  std::shared_ptr<ReduceKernels> kernels_;
  CUstream stream_ = nullptr;
  // The event that follows each piece of work; its index is the number of that work modulo kEvents.
  std::array<CUevent, kEvents> ends_{};
  std::uint64_t begun_ = 0, ended_ = 0;
  std::atomic<bool> over_{false};
  TimeSlicedGpu time_sliced_gpu_;
  PeerAllocation own_;  // the fields that are equal for all memory of this process
  std::vector<PeerAllocation> exported_;
  std::vector<Wanted> opened_;
  std::uint64_t uses_ = 0;
  CUdeviceptr barrier_state_ = 0;  // of this rank
  bool keeps_barrier_state_ = false;
};

}  // namespace rondo::cuda
