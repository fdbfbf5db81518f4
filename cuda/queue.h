// One communicator's access to a GPU. It copies on separate streams, and orders operations on the user's streams.
//
// Enter puts an event and a wait on the user's stream. The event shows when the stream's earlier work is done. The wait
// (cuStreamWaitValue64) holds the stream until a word in host memory reaches the operation's number. The word holds the
// number of the latest operation that has ended. So only this stream waits, and no thread of the driver blocks.
//
// An operation in a graph uses no such event or wait, because it consists of kernels (peers.h).
//
// Copies begin only after the host has seen the operation's event, that is, when the earlier work of the user's stream
// is done. So copies are never queued behind the user's work. Copies that are under way therefore end soon, and Drain
// is short whatever the user's stream does.
//
// Copies are not delayed if processes time-slice the GPU, because copy engines are not time-sliced (docs/GOTCHAS.md).
// One exception: the driver runs short host-to-device copies on the compute engine, which is time-sliced. Copies of
// several rows always run on a copy engine.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/engine/device.h"
#include "cuda/export.h"
#include "cuda/gpu.h"
#include "cuda/kernels/barrier.h"
#include "cuda/peers.h"

namespace rondo::cuda {

class Queue final : public DeviceQueue, private PendingStreamWaits {
 public:
  // kUnsupported: streams of this GPU cannot wait for words of memory.
  static Result<std::unique_ptr<Queue>> Make(std::shared_ptr<const Gpu> gpu, std::size_t most_operations);
  ~Queue() override;

  std::string_view name() const override { return gpu_->name(); }
  Status Check(const void* memory, std::size_t bytes, std::string_view what) const override;
  Result<std::unique_ptr<PinnedMemory>> Pin(MutableBytes memory) override;
  Result<ExportedMemory> Export(const std::byte* memory) override { return cuda::Export(*gpu_, memory); }
  std::uint64_t IdentityOf(const std::byte* memory) const override { return cuda::IdentityOf(*gpu_, memory); }
  Result<bool> IsCaptured(DeviceStream stream) const override;
  Status Enter(DeviceStream stream, Sequence sequence, bool waits) override;
  Result<bool> HasArrived(Sequence sequence) override;
  Status Copy(CopyDirection direction, const DeviceCopy& copy) override;
  Result<std::uint64_t> Copied(CopyDirection direction) override;
  void Leave(Sequence sequence) noexcept override;
  void ReleaseAllStreams() noexcept override;
  void Drain() noexcept override;
  Status Capture(DeviceStream stream, const DeviceProgram& program) override;
  std::optional<GraphFailure> FindGraphFailure() const override;
  void EndGraphs() noexcept override { StoreForAll(&words_->report.stop, 1); }
  DevicePeers* peers(std::string& why) override;
  void RunIdleCleanup() override {
    if (peers_ != nullptr && peers_->HasUnwanted() && !gpu_->DoStreamsWait()) peers_->CloseUnwanted();
  }

 private:
  // Words in pinned memory that host and GPU exchange.
  struct Words {
    std::uint64_t left = 0;  // number of the latest operation that has ended; streams wait for it
    BarrierReport report;    // failures of operations in graphs
  };
  // The copies in one direction, to the device or to the host. Each direction has its own stream.
  struct Way {
    CUstream stream = nullptr;
    // The event recorded after each copy, indexed by the copy's number modulo kMaxCopies.
    std::array<CUevent, kMaxCopies> ends{};
    std::uint64_t begun = 0, ended = 0;
  };

  Queue(std::shared_ptr<const Gpu> gpu, std::size_t most_operations)
      : gpu_(std::move(gpu)), driver_(gpu_->driver()), arrivals_(most_operations) {}
  Status Prepare();
  Status Put(const Way& way, CopyDirection direction, const DeviceCopy& copy) const;
  Status PutRows(CUstream stream, CopyDirection direction, const DeviceCopy& copy) const;
  Status PutRow(CUstream stream, CopyDirection direction, const DeviceCopy& copy) const;
  Status MayBegin() const;
  bool DoStreamsWait() const override;
  bool HasReleasedAllStreams() const;
  CUevent& ArrivalOf(Sequence sequence) { return arrivals_[sequence % arrivals_.size()]; }

  const std::shared_ptr<const Gpu> gpu_;
  const Driver& driver_;
  std::size_t max_pitch_ = 0;  // largest pitch that the driver accepts in copies of rows
  bool is_time_sliced_ = false;
  std::array<Way, 2> ways_;  // indexed by direction
  // The events that Enter records, indexed by sequence modulo arrivals_.size(). The issuer creates an event when it is
  // first needed; the owner queries it.
  std::vector<CUevent> arrivals_;
  std::unique_ptr<Peers> peers_;
  std::atomic<Peers*> peers_seen_{nullptr};
  std::string no_peers_;                // why making peers_ failed; "": not tried, or made
  std::atomic<Sequence> last_wait_{0};  // the latest operation for which a stream waits
  Words* words_ = nullptr;              // in pinned memory; its page contains nothing else
  CUdeviceptr words_there_ = 0;         // the GPU's address of words_
};

}  // namespace rondo::cuda
