// Advances the operations of a communicator: starts the next collective, polls it and completes it, advances messages,
// and ends all of them after a failure. progress.h decides which thread does so, and how threads wait meanwhile.
//
// Thread rules stand at each group of methods.
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

// A communicator, as its OperationProgress calls it.
class OperationProgressListener {
 public:
  // After a failure every operation has ended, and all who wait have been told. By the owner, once.
  virtual void OnEnded() noexcept = 0;

 protected:
  ~OperationProgressListener() = default;
};

class OperationProgress final : public ProgressSource {
 public:
  // The parts of the communicator that it needs. All of them outlive it.
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
  // kNotReady: the operation has not ended until then. Otherwise its final status.
  Status WaitFor(Sequence sequence, TimePoint until);
  // nullopt: the operation has not ended.
  std::optional<Status> FinalStatus(Sequence sequence) const;
  // Calls `done` with the final status of `message`; if that is null, of the collective with that number.
  void Then(Sequence sequence, std::shared_ptr<MessageOperation> message, std::function<void(const Status&)> done);
  // Advances everything once, unless another thread is about it. Whether anything moved.
  bool ProgressOnce();

  // ---- the issuer, which is the owner as well ----
  // Whether a call may run this operation to its end: it is short, nothing else is under way, and no rank must join
  // first. Now and then it says no, so that the endpoint is polled.
  bool MayRunAtOnce(const OperationRequest& request);
  // Begins the operation that was issued last, a short one on the shared segment, and goes on with it for a moment.
  // Whether it has ended. REQUIRES: MayRunAtOnce before it was issued.
  bool RunAtOnce();

  // ---- the owner ----
  // After a failure: ends all operations. When it returns, nothing but launched graphs uses the memory of any.
  void EndAfterFailure() noexcept;

  // ---- ProgressSource, with its thread rules ----
  Advanced Advance() override;
  bool Glance() override;
  bool CheckWhileBlocked(TimePoint now, Sequence waited) override;
  void CheckWhileMoving(TimePoint now, Sequence waited) override;
  void OnPause(Duration pause) override;
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
  // Starts the current operation. False: not yet.
  Result<bool> StartNext();
  bool StartAndPoll();

  const Neighbours near_;
  std::uint32_t segment_polls_ = 0;
};

}  // namespace rondo
