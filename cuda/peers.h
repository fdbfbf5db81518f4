// A GPU at work on memory of other processes, by CUDA IPC: a rank shows an allocation by a handle, others open it and
// read it by kernels and copies, as if it were their own. Ranks of one process, and several on one GPU, too.
//
// What was opened stays open, for that takes longer than most operations: beyond kMostOpened allocations those that
// were not wanted for longest are closed, when nothing is under way (closing may wait for the device, and that for an
// operation). So memory that another rank frees is the GPU's again only when it has been closed here, or what lies
// there then is to be opened (opened_memory.h: all communicators of the process have one table). An allocation is known
// by the identity that the driver gives it, and so never taken for one that lies at its address later. What a graph
// uses is open for good.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/engine/device.h"
#include "cuda/fold_kernels.h"
#include "cuda/gpu.h"
#include "cuda/opened_memory.h"

namespace rondo::cuda {

class Peers final : public DevicePeers {
 public:
  static constexpr std::size_t kMostOpened = 64;

  // kUnsupported: the kernels do not run on this GPU.
  static Result<std::unique_ptr<Peers>> Make(std::shared_ptr<const Gpu> gpu);
  ~Peers() override;

  Result<Place> Show(const std::byte* memory, std::uint64_t bytes) override;
  Result<std::byte*> Find(const Place& place, bool may_wait) override;
  Server server() const override { return server_; }
  Status Fold(const DeviceFold& fold) override;
  Status CopyWithin(std::byte* destination, const std::byte* source, std::uint64_t bytes) override;
  Result<const std::byte*> MeetingPlace() override;
  std::uint64_t begun() const override { return begun_; }
  Result<std::uint64_t> Ended() override;
  void Drain() noexcept override;
  // As DeviceQueue::Capture; `report` is where the GPU finds it.
  Status Capture(CUstream stream, const DeviceProgram& program, MeetingReport* report);
  // After a failure graphs of other ranks may still be launched, and tell this one's place that they have come: it is
  // never freed then.
  void OthersMayCome() { others_may_come_ = true; }
  // Any thread. From now on what is to be begun is refused.
  void BeginNothing() { over_.store(true); }
  // Asked before every operation that begins when nothing is under way; calls no driver.
  bool HasUnwanted() const { return opened_.size() > kMostOpened || gpu_->opened().HasFreed(); }
  // REQUIRES: nothing is under way.
  void CloseUnwanted();
  std::size_t opened() const { return opened_.size(); }

 private:
  // What a Place is, in bytes.
  struct Shown {
    PeerAllocation of;         // at 0: nothing is shown
    std::uint64_t offset = 0;  // in it
  };
  static_assert(sizeof(Shown) <= kPlaceBytes);
  struct Wanted {
    OpenedMemory::Opened* opened = nullptr;
    std::uint64_t last_use = 0;
    bool in_graph = false;
  };
  static constexpr std::size_t kEvents = 64;

  explicit Peers(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)), driver_(gpu_->driver()) {}
  Status Prepare();
  Status Note();
  Status MayBegin() const;
  void KeepOpen(const DeviceProgram& program);
  void Close(const Wanted& wanted) const { gpu_->opened().Close(driver_, wanted.opened); }

  const std::shared_ptr<const Gpu> gpu_;
  const Driver& driver_;
  std::shared_ptr<FoldKernels> kernels_;
  CUstream stream_ = nullptr;
  std::array<CUevent, kEvents> ends_{};  // of what was begun by its number, modulo
  std::uint64_t begun_ = 0, ended_ = 0;
  std::atomic<bool> over_{false};
  Server server_;
  PeerAllocation own_;  // what is the same of all memory of this process
  std::vector<PeerAllocation> shown_;
  std::vector<Wanted> opened_;
  std::uint64_t uses_ = 0;
  CUdeviceptr place_ = 0;  // of meetings
  bool others_may_come_ = false;
};

}  // namespace rondo::cuda
