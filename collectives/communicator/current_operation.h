// The operation that runs: how it starts on the path that serves it, how it is polled, and what is due at its end.
//
// Operations on memory of devices go by the devices alone, where all ranks share a host and their devices reach each
// other's memory, or by way of the host's memory, in windows. What a processor must see or do goes by way of the host:
// results that are compared, wide partials, functions of users.
//
// Thread rule: the owner, except where a method says otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "collectives/communicator/device_access.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/request_checker.h"
#include "collectives/communicator/runner.h"
#include "collectives/communicator/shared_endpoint.h"
#include "collectives/communicator/user_operation_mover.h"
#include "collectives/communicator/wide_partials.h"
#include "collectives/device/reading_mover.h"
#include "collectives/device/staging.h"
#include "collectives/engine/device.h"
#include "collectives/engine/operation_request.h"
#include "collectives/engine/plan.h"

namespace rondo {

// The error of a device under this rank, with the names of both; any other error as it is. `queue`: the way to the
// device, if there is one.
Error WithDeviceNamed(const Error& error, const DeviceQueue* queue, const RankNames& names);

class CurrentOperation {
 public:
  // As CommunicatorOptions has them.
  struct Options {
    Rank rank = 0;
    int world_size = 1;
    std::uint32_t max_cached_plans = 1;
    std::uint64_t max_scratch_bytes = 0;
    bool checksums = false;
    bool device_peers = false;
    std::uint64_t device_turns_host_bytes = 0;
    std::uint64_t device_window_bytes = 1;
    Logger* logger = nullptr;
  };
  // The parts of the communicator that it needs. All of them outlive it.
  struct Neighbours {
    const RankNames& names;
    RequestChecker& checker;
    const SharedEndpoint& endpoint;
    const DeviceAccess& device;  // there is one before the first operation on a device is issued
  };
  CurrentOperation(const Options& options, const Neighbours& neighbours);
  // Once, before the first operation, with a mover for each rail. `readers`: within those, where lanes may send memory
  // of devices.
  void Open(const EngineOptions& engine, const RailOptions& rails,
            std::vector<std::unique_ptr<UserOperationMover>> movers, std::vector<DeviceReadingMover*> readers);

  Runner& runner() { return *runner_; }
  const Runner& runner() const { return *runner_; }

  // ---- its run ----
  // Begins it; it lives until it has ended. False: not yet, the ranks still join the shared segment.
  Result<bool> Start(OperationRequest& request);
  // Whether one has been started and has not ended.
  bool running() const { return runner_->running() || staging_.running(); }
  // Or the one that ran last.
  const OperationDescriptor& operation() const {
    return staging_.running() ? staging_.operation() : runner_->operation();
  }
  Result<Progress> Poll() {
    if (staging_.running()) [[unlikely]]
      return PollOnDevice();
    if (!runner_->running()) [[unlikely]]
      return Progress::kComplete;  // it was declined when it started
    return runner_->Poll();
  }
  // After kComplete.
  void Complete(const OperationRequest& request);
  // After an error: returns once nothing touches its memory.
  void Drain();
  // An error of Start or Poll, with the operation: ranks that are in another one by now name it, too.
  Error InOperation(const Error& found) const;

  // ---- why it waits ----
  // The ranks still join the shared segment, and an operation waits for it.
  bool is_joining() const { return !segment_settled_ && segment_ != nullptr; }
  // REQUIRES: is_joining().
  const SharedSegment& segment() const { return *segment_; }
  // What a function of the user has thrown; null: nothing.
  const std::string* FindUserFailure() const {
    for (const auto& mover : movers_)
      if (mover->failure()) return &*mover->failure();
    return nullptr;
  }
  // Whether it is on a device, and may wait for that.
  bool is_on_device() const { return staging_.running(); }
  // What it waits for on this rank's own device; "": for nothing there.
  std::string LocalWait() const;

  // ---- any thread ----
  // How the last operation on devices went, a line; "": there was none.
  std::string DescribeDeviceWay() const;
  const StagingWindows& windows() const { return windows_; }
  // Whether lanes may be given memory of devices.
  bool may_send_device_memory() const { return !readers_.empty(); }

 private:
  enum class OnDevices : std::uint8_t { kUntried, kRunning, kDeclined, kStaged };
  enum class DeviceWay : std::uint8_t { kNone, kHost, kAdapters, kPeers };

  Result<bool> SettleSegment();
  Status SettleAlgorithm(OperationRequest& request) const;
  // Hands an operation, or a window of one, to the runner; what is to be done when it has run.
  Status Begin(const OperationRequest& request);
  void End(const OperationRequest& request);
  Result<OperationBuffers> BuffersOf(const OperationRequest& request);
  static OperationBuffers UserBuffersOf(const OperationRequest& request, bool in_place);
  // Lives until the next is asked for.
  Result<const Plan*> PlanOf(const OperationRequest& request, bool in_place);

  Result<Progress> PollOnDevice();
  Result<Progress> PollStaged();
  void StartOnDevices(const OperationRequest& request);
  bool MayRunOnDevices(const OperationRequest& request) const;
  // Warns, as soon as it is known, if processes share a GPU by turns.
  void NoteTimeSlicing();
  // Whether all that this rank brings to an operation is sent from where it is, on the device, and that can be done.
  // Each rank decides for itself: no peer sees from where bytes come.
  Result<bool> MayLeaveInput(const OperationRequest& request);
  void NoteWay(DeviceWay way);

  const Options options_;
  const Neighbours near_;
  std::vector<std::unique_ptr<UserOperationMover>> movers_;  // by rail
  std::vector<DeviceReadingMover*> readers_;
  std::unique_ptr<Runner> runner_;
  SharedSegment* segment_ = nullptr;  // the endpoint's, once it was asked for
  bool segment_settled_ = true;       // there is none, or the runner has it
  PlanCache plans_;
  WidePartials wide_partials_;
  const StagingWindows windows_;
  Staging staging_;
  OnDevices on_devices_ = OnDevices::kUntried;  // the current operation, while staging_ runs
  std::atomic<bool> is_time_sliced_{false};
  std::atomic<DeviceWay> device_way_{DeviceWay::kNone};  // of the last operation on devices
};

// kCorrupt: the operation has gathered the checksums of results, and they differ. An operation that the issuing call
// runs to its end gathers none.
Status CompareResults(const OperationRequest& request);

}  // namespace rondo
