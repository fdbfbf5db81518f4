// The way of one communicator to a GPU: copies on streams of its own, and places on the user's streams.
//
// An operation's place on a stream is an event and a wait: the event tells when the stream has come so far, and the
// stream then waits for a word of the host's memory (cuStreamWaitValue64), in which the number of the last operation
// stands that has ended. So nothing is synchronised but that stream, and no thread of the driver's is held.
//
// An operation in a graph has kernels instead (peers.h), and none of this.
//
// Copies begin when their operation has arrived, as the host sees it; they are never queued behind the user's work. So
// what is under way always ends soon, and Drain is short whatever the user's stream does.
//
// Copies do not wait where processes time-slice the GPU, because engines that only copy are not time-sliced
// (docs/GOTCHAS.md). One exception: the driver gives short copies to the device to the engine that computes, and that
// one is time-sliced. Copies of several rows always go to an engine that only copies.
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
#include "cuda/kernels/meet.h"
#include "cuda/peers.h"

namespace rondo::cuda {

class Queue final : public DeviceQueue, private StreamsWaitFor {
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
  void LeaveForGood() noexcept override;
  void Drain() noexcept override;
  Status Capture(DeviceStream stream, const DeviceProgram& program) override;
  std::optional<GraphTrouble> TroubleOfGraphs() const override;
  void EndGraphs() noexcept override { StoreForAll(&words_->report.stop, 1); }
  DevicePeers* peers(std::string& why) override;
  void Rest() override {
    if (peers_ != nullptr && peers_->HasUnwanted() && !gpu_->DoStreamsWait()) peers_->CloseUnwanted();
  }

 private:
  // What the host and the GPU say to each other, in pinned memory.
  struct Words {
    std::uint64_t left = 0;  // the last operation that has ended: what streams wait for
    MeetingReport report;    // of graphs
  };
  // The copies of one direction, on a stream of their own.
  struct Way {
    CUstream stream = nullptr;
    std::array<CUevent, kMostCopies> ends{};  // of the copy by its number, modulo
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
  bool LeftForGood() const;
  CUevent& ArrivalOf(Sequence sequence) { return arrivals_[sequence % arrivals_.size()]; }

  const std::shared_ptr<const Gpu> gpu_;
  const Driver& driver_;
  std::size_t max_pitch_ = 0;  // of copies of rows
  bool takes_turns_ = false;
  std::array<Way, 2> ways_;  // by direction
  // Issuer's, but for their state, which the owner asks for: by sequence, made when first needed.
  std::vector<CUevent> arrivals_;
  std::unique_ptr<Peers> peers_;
  std::atomic<Peers*> peers_seen_{nullptr};
  std::string no_peers_;                // why there are none, once it was tried
  std::atomic<Sequence> last_wait_{0};  // the last operation for which a stream was to wait
  Words* words_ = nullptr;              // a page of its own
  CUdeviceptr words_there_ = 0;
};

}  // namespace rondo::cuda
