// Advances the operations of a communicator: starts the next collective, polls and completes it, advances messages, and
// ends all operations after a failure. progress.h decides which thread does so, and how threads wait meanwhile.
//
// Thread rules: see each group of methods.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "collectives/communicator/callbacks.h"
#include "collectives/communicator/current_operation.h"
#include "collectives/communicator/device_access.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/failure_detector.h"
#include "collectives/communicator/messages.h"
#include "collectives/communicator/operation_queue.h"
#include "collectives/communicator/operation_records.h"
#include "collectives/communicator/progress.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/shared_endpoint.h"
#include "collectives/communicator/stream_guard.h"
#include "collectives/communicator/suspicion.h"
#include "collectives/communicator/waiter.h"
#include "collectives/engine/operation_request.h"

namespace rondo {

// The part of the communicator that OperationProgress calls.
class OperationProgressListener {
 public:
  // The owner calls it once after a failure, when every operation has ended and all waiting threads have been notified.
  virtual void OnEnded() noexcept = 0;

 protected:
  ~OperationProgressListener() = default;
};

class OperationProgress final : public ProgressSource {
 public:
  // The parts of the communicator that OperationProgress needs. All of them outlive it.
  struct Neighbours {
    const RankNames& names;
    const SharedEndpoint& endpoint;
    CurrentOperation& current;
    OperationQueue& queue;
    Messages& messages;
    Suspicion& suspicion;
    OperationRecords& records;
    Callbacks& callbacks;
    ProgressLoop& progress;
    FailureDetector& detector;
    StreamGuard& streams;
    DeviceAccess& device;
    Failure& failure;
    Waiter& waiter;
    OperationProgressListener& listener;
  };
  explicit OperationProgress(const Neighbours& neighbours) : near_(neighbours) {}

  // ---- any thread ----
  // Waits until the operation has ended, and returns its final status. kNotReady: it has not ended by the time `until`.
  Status WaitFor(Sequence sequence, TimePoint until);
  // The final status of the operation; nullopt: it has not ended.
  std::optional<Status> FinalStatus(Sequence sequence) const;
  // Calls `done` with the final status of `message`, or, if that is null, of the collective `sequence`.
  void Then(Sequence sequence, std::shared_ptr<MessageOperation> message, std::function<void(const Status&)> done);
  // Advances everything once, unless another thread does so at the moment. Returns whether anything moved.
  bool ProgressOnce();

  // ---- the issuer, if it is also the owner ----
  // Returns whether the issuing call may run this operation to its end. It may if the operation is short, no other one
  // is pending, and the shared segment is ready. Now and then it returns false, so that the endpoint is polled.
  bool MayRunAtOnce(const OperationRequest& request);
  // Starts the latest issued operation, which is short and uses the shared segment, and polls it for a moment. Returns
  // whether it has ended. REQUIRES: MayRunAtOnce returned true before the operation was issued.
  bool RunAtOnce();

  // ---- the owner ----
  // After a failure: ends all operations. When it returns, nothing uses their memory any more, except launched graphs.
  void EndAfterFailure() noexcept;

  // ---- ProgressSource; its thread rules apply ----
  Advanced Advance() override;
  bool Glance() override;
  bool CheckWhileBlocked(TimePoint now, Sequence waited) override;
  void CheckWhileMoving(TimePoint now, Sequence waited) override;
  void OnPause(TimePoint begin, TimePoint end) override;
  BeforeSleep PrepareToSleep() override;
  bool Arm() override;
  void Disarm() override;
  TimePoint WakeTime(TimePoint now) override;
  void Sleep(int kick_fd, TimePoint until) override;
  bool HasWorkSince(Sequence issued) const override;
  Sequence issued() const override { return near_.queue.issued(); }
  bool HasEnded(Sequence last) const override;
  bool HasWork() const override;
  void RunCallbacks() override;

 private:
  bool AdvanceOperations();
  // Starts the current operation. False: it has not started yet, because ranks are still joining the shared segment.
  Result<bool> StartNext();
  bool StartAndPoll();

  const Neighbours near_;
  std::uint32_t segment_polls_ = 0;
};

}  // namespace rondo
