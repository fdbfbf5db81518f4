// Runs the current operation: starts it on its path, polls it, and finishes it.
//
// An operation on device memory runs in one of two ways. If all ranks share a host and their devices can read each
// other's memory, the devices do it alone. Otherwise the data is staged through the host, in pieces. An operation is
// always staged if it needs a CPU: because its results are compared, because it uses a user's function, or because it
// is computed in a wider type (for exceptions see OperationRequest::devices_serve_type).
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
#include "collectives/communicator/widened_buffer.h"
#include "collectives/device/reading_mover.h"
#include "collectives/device/staging.h"
#include "collectives/engine/device.h"
#include "collectives/engine/operation_request.h"
#include "collectives/engine/plan.h"

namespace rondo {

// If the error comes from this rank's device, adds the names of the device and of this rank; returns any other error
// unchanged. `queue`: this rank's queue to the device; null: there is none.
Error WithDeviceNamed(const Error& error, const DeviceQueue* queue, const RankNames& names);

class CurrentOperation {
 public:
  // The fields mean the same as in CommunicatorOptions.
  struct Options {
    Rank rank = 0;
    int world_size = 1;
    std::uint32_t max_cached_plans = 1;
    std::uint64_t max_scratch_bytes = 0;
    bool checksums = false;
    bool device_peers = false;
    std::uint64_t gpu_timeslice_staging_max_bytes = 0;
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
  // Call it once, before the first operation. `movers`: one for each rail. `readers`: the movers inside `movers`
  // that read device memory; empty if lanes must not send device memory.
  void Open(const EngineOptions& engine, const RailOptions& rails,
            std::vector<std::unique_ptr<UserOperationMover>> movers, std::vector<DeviceReadingMover*> readers);

  Runner& runner() { return *runner_; }
  const Runner& runner() const { return *runner_; }

  // ---- running ----
  // Starts an operation; `request` must live until it has ended. False: it has not started yet, because ranks are still
  // joining the shared segment.
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
      return Progress::kComplete;  // the operation was declined when it was started, so it has ended already
    return runner_->Poll();
  }
  // Call it after Poll has returned kComplete.
  void Complete(const OperationRequest& request);
  // Call it after an error. Returns when nothing uses the operation's memory any more.
  void Drain();
  // Adds the operation to an error of Start or Poll. Other ranks, which may be in another operation by now, can then
  // name it in their errors.
  Error InOperation(const Error& found) const;

  // ---- what the operation waits for ----
  // Whether an operation waits because ranks are still joining the shared segment.
  bool is_joining() const { return !segment_settled_ && segment_ != nullptr; }
  // REQUIRES: is_joining().
  const SharedSegment& segment() const { return *segment_; }
  // The exception that a function of the user threw, as text; null: none has thrown.
  const std::string* FindUserFailure() const {
    for (const auto& mover : movers_)
      if (mover->failure()) return &*mover->failure();
    return nullptr;
  }
  // Whether an operation on device memory runs. It may have to wait for the device.
  bool is_on_device() const { return staging_.running(); }
  // Describes what the operation waits for on this rank's own device; "": nothing.
  std::string LocalWait() const;

  // ---- for any thread ----
  // Describes in one line how the latest operation on device memory was done; "": there was none.
  std::string DescribeDeviceWay() const;
  const StagingWindows& windows() const { return windows_; }
  // Whether lanes may send directly from device memory.
  bool may_send_device_memory() const { return !readers_.empty(); }

 private:
  enum class OnDevices : std::uint8_t { kUntried, kRunning, kDeclined, kStaged };
  enum class DeviceWay : std::uint8_t { kNone, kHost, kAdapters, kPeers };

  Result<bool> SettleSegment();
  Status SettleAlgorithm(OperationRequest& request) const;
  // Begin gives an operation, or one staged piece of it, to the runner. End finishes it after it has run.
  Status Begin(const OperationRequest& request);
  void End(const OperationRequest& request);
  Result<OperationBuffers> BuffersOf(const OperationRequest& request);
  static OperationBuffers UserBuffersOf(const OperationRequest& request, bool in_place);
  // Returns a plan that is valid until the next call.
  Result<const Plan*> PlanOf(const OperationRequest& request, bool in_place);

  Result<Progress> PollOnDevice();
  Result<Progress> PollStaged();
  void StartOnDevices(const OperationRequest& request);
  bool MayRunOnDevices(const OperationRequest& request) const;
  // Logs a warning when it is first detected that processes time-slice a GPU.
  void NoteTimeSlicing();
  // Whether lanes may send this rank's whole input directly from the device. Each rank decides this alone, because
  // peers see no difference.
  Result<bool> MayLeaveInput(const OperationRequest& request);
  void NoteWay(DeviceWay way);

  const Options options_;
  const Neighbours near_;
  std::vector<std::unique_ptr<UserOperationMover>> movers_;  // by rail
  std::vector<DeviceReadingMover*> readers_;
  std::unique_ptr<Runner> runner_;
  SharedSegment* segment_ = nullptr;  // owned by the endpoint; null until the first operation asks for it
  bool segment_settled_ = true;       // true: there is no segment, or the runner uses it
  PlanCache plans_;
  WidenedBuffer widened_;
  const StagingWindows windows_;
  Staging staging_;
  OnDevices on_devices_ = OnDevices::kUntried;  // the state of the current operation while staging_ runs
  std::atomic<bool> is_time_sliced_{false};
  std::atomic<DeviceWay> device_way_{DeviceWay::kNone};  // how the latest operation on device memory was done
};

// kCorrupt: the operation has gathered the checksums of all ranks' results, and they differ. Operations that gather no
// checksums always succeed here. An operation that runs to its end in the issuing call gathers none.
Status CompareResults(const OperationRequest& request);

}  // namespace rondo
