// The operation that runs: starts it on its path, polls it, and does what must be done at its end.
//
// An operation on memory of devices takes one of two ways. If all ranks share a host and their devices reach each
// other's memory, the devices do it alone. Otherwise the data goes by way of the host, in windows. Operations that need
// a processor always go by way of the host: their results are compared, or they have wide partials or functions of
// users.
//
// Thread rule: the owner, unless a method says otherwise.
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

// Adds the names of the device and of this rank to an error of this rank's device; returns any other error unchanged.
// `queue`: this rank's way to the device; null: none.
Error WithDeviceNamed(const Error& error, const DeviceQueue* queue, const RankNames& names);

class CurrentOperation {
 public:
  // Fields as in CommunicatorOptions.
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
  // The parts of the communicator that CurrentOperation needs. All of them outlive it.
  struct Neighbours {
    const RankNames& names;
    RequestChecker& checker;
    const SharedEndpoint& endpoint;
    const DeviceAccess& device;  // set before the first operation on a device is issued
  };
  CurrentOperation(const Options& options, const Neighbours& neighbours);
  // Call it once, before the first operation, with a mover for each rail. `readers`: movers inside those that read
  // memory of devices; empty if lanes may not send such memory.
  void Open(const EngineOptions& engine, const RailOptions& rails,
            std::vector<std::unique_ptr<UserOperationMover>> movers, std::vector<DeviceReadingMover*> readers);

  Runner& runner() { return *runner_; }
  const Runner& runner() const { return *runner_; }

  // ---- running ----
  // Starts an operation; `request` must live until it has ended. False: not yet, ranks are still joining the shared
  // segment.
  Result<bool> Start(OperationRequest& request);
  // Whether an operation has been started and has not ended.
  bool running() const { return runner_->running() || staging_.running(); }
  // The running operation, or the one that ran last.
  const OperationDescriptor& operation() const {
    return staging_.running() ? staging_.operation() : runner_->operation();
  }
  Result<Progress> Poll() {
    if (staging_.running()) [[unlikely]]
      return PollOnDevice();
    if (!runner_->running()) [[unlikely]]
      return Progress::kComplete;  // it was declined when it started, so it has ended already
    return runner_->Poll();
  }
  // Call it after kComplete.
  void Complete(const OperationRequest& request);
  // Call it after an error: returns once nothing uses the operation's memory any more.
  void Drain();
  // Adds the operation to an error of Start or Poll: another rank, which may be in another operation by now, then names
  // it, too.
  Error InOperation(const Error& found) const;

  // ---- what it waits for ----
  // Whether ranks are still joining the shared segment, and an operation waits for that.
  bool is_joining() const { return !segment_settled_ && segment_ != nullptr; }
  // REQUIRES: is_joining().
  const SharedSegment& segment() const { return *segment_; }
  // The exception that a function of the user threw, as text; null: none has thrown.
  const std::string* FindUserFailure() const {
    for (const auto& mover : movers_)
      if (mover->failure()) return &*mover->failure();
    return nullptr;
  }
  // Whether an operation on memory of a device runs, which may wait for the device.
  bool is_on_device() const { return staging_.running(); }
  // Describes what the operation waits for on this rank's own device; "": nothing.
  std::string LocalWait() const;

  // ---- any thread ----
  // Describes how the last operation on devices was done, in one line; "": there was none.
  std::string DescribeDeviceWay() const;
  const StagingWindows& windows() const { return windows_; }
  // Whether lanes may send from memory of devices.
  bool may_send_device_memory() const { return !readers_.empty(); }

 private:
  enum class OnDevices : std::uint8_t { kUntried, kRunning, kDeclined, kStaged };
  enum class DeviceWay : std::uint8_t { kNone, kHost, kAdapters, kPeers };

  Result<bool> SettleSegment();
  Status SettleAlgorithm(OperationRequest& request) const;
  // Hands an operation, or one window of it, to the runner; End does what must be done after its run.
  Status Begin(const OperationRequest& request);
  void End(const OperationRequest& request);
  Result<OperationBuffers> BuffersOf(const OperationRequest& request);
  static OperationBuffers UserBuffersOf(const OperationRequest& request, bool in_place);
  // The plan is valid until the next call.
  Result<const Plan*> PlanOf(const OperationRequest& request, bool in_place);

  Result<Progress> PollOnDevice();
  Result<Progress> PollStaged();
  void StartOnDevices(const OperationRequest& request);
  bool MayRunOnDevices(const OperationRequest& request) const;
  // Logs a warning, once, when it is detected that processes share a GPU by time slicing.
  void NoteTimeSlicing();
  // Whether lanes may send this rank's whole input directly from the device. Each rank decides this for itself: peers
  // see no difference.
  Result<bool> MayLeaveInput(const OperationRequest& request);
  void NoteWay(DeviceWay way);

  const Options options_;
  const Neighbours near_;
  std::vector<std::unique_ptr<UserOperationMover>> movers_;  // by rail
  std::vector<DeviceReadingMover*> readers_;
  std::unique_ptr<Runner> runner_;
  SharedSegment* segment_ = nullptr;  // the endpoint's; null until it was asked for
  bool segment_settled_ = true;       // there is no segment, or the runner has it
  PlanCache plans_;
  WidePartials wide_partials_;
  const StagingWindows windows_;
  Staging staging_;
  OnDevices on_devices_ = OnDevices::kUntried;  // how far the current operation is, while staging_ runs
  std::atomic<bool> is_time_sliced_{false};
  std::atomic<DeviceWay> device_way_{DeviceWay::kNone};  // the way that the last operation on devices took
};

// kCorrupt: the operation has gathered the checksums of all ranks' results, and they differ. Operations that gather no
// checksums always succeed here; those that run to their end in the issuing call gather none.
Status CompareResults(const OperationRequest& request);

}  // namespace rondo
