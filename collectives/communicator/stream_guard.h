// Guards device streams that wait for operations of a communicator. A watchdog checks the streams
// (device/stream_watchdog.h), and fails operations that no other thread can end.
//
// Thread rules: see each group of methods.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "collectives/communicator/current_operation.h"
#include "collectives/communicator/device_access.h"
#include "collectives/communicator/failure.h"
#include "collectives/communicator/operation_queue.h"
#include "collectives/communicator/progress_lock.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/device/stream_watchdog.h"

namespace rondo {

class StreamGuard final : public WatchedStreams {
 public:
  // The parts of the communicator that the guard needs. All of them outlive it.
  struct Neighbours {
    const RankNames& names;
    const Clock& clock;
    OperationQueue& queue;
    CurrentOperation& current;
    const ProgressLock& lock;
    Failure& failure;
    DeviceAccess& device;
    Logger* logger;
  };
  explicit StreamGuard(const Neighbours& neighbours) : near_(neighbours) {}

  // ---- the issuer ----
  bool is_on() const { return watch_ != nullptr; }
  // Call it once, before the first operation that a stream waits for. kResource: the watchdog's thread cannot be made.
  Status Begin();
  // Must be called for every operation that is issued after Begin.
  void OnIssued(const OperationQueue::Operation& pending);
  // Call it when no operation will be issued any more. Returns when the guard's threads have ended.
  void End();

  // ---- the owner ----
  // Call it whenever operations are about to be advanced.
  void OnLook() { looks_.store(looks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  // ---- WatchedStreams ----
  Sequence completed() const override { return near_.queue.completed(); }
  std::uint64_t looks() const override { return looks_.load(); }
  bool is_driven() const override { return near_.lock.IsHeld(); }
  bool has_failed() const override { return near_.failure.has_failed(); }
  bool is_ending() const override { return near_.failure.state() >= Failure::State::kEnding; }
  bool has_ended() const override { return near_.failure.has_ended(); }
  void OnDriverBlocked(Sequence operation, Duration time) override;
  void OnLate(Sequence operation, bool is_blocked) override;
  void ReleaseStreams() override;

 private:
  const Neighbours near_;
  std::atomic<std::uint64_t> looks_{0};
  std::unique_ptr<StreamWatchdog> watch_;
  std::thread reporter_;  // writes the watchdog's log messages, so that the watchdog does not wait for the logger
  std::atomic<bool> is_reporting_{false};
};

}  // namespace rondo
