// Breaks a deadlock that would never end by itself (docs/GOTCHAS.md, CUDA). A stream waits for an operation, a call of
// the device's driver waits for that stream, and the thread that should end the operation is blocked in the driver
// behind that call. The driver does not detect this cycle. This class has a thread that never calls the driver. If an
// operation is past its deadline and the owner has not failed it, this thread fails the operation and then releases the
// streams.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace rondo {

// The communicator that is watched. The watchdog's thread calls these methods. None of them may call the driver, or
// wait for a thread that does.
class WatchedStreams {
 public:
  virtual ~WatchedStreams() = default;
  virtual Sequence completed() const = 0;  // the latest operation that has ended
  // Counts how often the owner has checked for progress. The owner does so at least every
  // GracePeriods::heartbeat_interval, unless a call blocks it.
  virtual std::uint64_t looks() const = 0;
  virtual bool is_driven() const = 0;  // some thread holds the progress lock and is not asleep
  virtual bool has_failed() const = 0;
  // the communicator has failed, and the owner waits until no operation uses any memory
  virtual bool is_ending() const = 0;
  virtual bool has_ended() const = 0;  // the communicator has failed, and the streams have been released
  // Reports that the owner has been inside one call, perhaps a call of the driver, for `time`. Called once for each
  // such call.
  virtual void OnDriverBlocked(Sequence operation, Duration time) = 0;
  // The operation is past its deadline and must be failed.
  virtual void OnLate(Sequence operation, bool is_blocked) = 0;
  virtual void ReleaseStreams() = 0;
};

class StreamWatchdog {
 public:
  static constexpr Duration kLookEvery = std::chrono::milliseconds(500);
  // Numbers of consecutive checks that find no progress. After kLooksUntilBlocked of them, the watchdog reports the
  // owner as blocked. After kLooksUntilGivenUp, it fails an operation that is late. One check is not enough: after a
  // stop of the whole process, the owner might not have run yet.
  static constexpr int kLooksUntilBlocked = 4;
  static constexpr int kLooksUntilGivenUp = 2;
  // If the owner works on an operation on host memory, the watchdog waits for this many checks before it reports the
  // owner as blocked or fails an operation. The owner may be in a slow function of the user.
  static constexpr int kLooksAtWork = 40;
  // For this long after its deadline, the watchdog leaves an operation to the owner, unless the owner is blocked.
  static constexpr Duration kOwnerSpeaksFirst = std::chrono::seconds(1);
  // Number of checks after a failure until the watchdog releases the streams, unless the owner has made sure by then
  // that no operation uses any memory. While the owner is making sure of this, kLooksWhileEnding applies instead,
  // because the owner may wait for long copies, or be blocked.
  static constexpr int kLooksUntilRelease = 4;
  static constexpr int kLooksWhileEnding = 40;
  // The thread sleeps after this many checks that found no waiting stream.
  static constexpr int kLooksUntilAsleep = 20;

  // The arguments passed by reference must outlive this object. `most_operations`: limit of pending operations. Throws
  // what the constructor of std::thread throws.
  StreamWatchdog(WatchedStreams& watched, const Clock& clock, std::size_t most_operations,
                 Duration look_every = kLookEvery);
  ~StreamWatchdog();
  StreamWatchdog(const StreamWatchdog&) = delete;
  StreamWatchdog& operator=(const StreamWatchdog&) = delete;

  struct Issue {
    TimePoint deadline;
    bool on_device = false;
    bool stream_waits = false;
  };
  // Issuer only. Must be called for every operation, because an operation for which a stream waits may itself wait for
  // earlier ones.
  void Issued(Sequence operation, const Issue& issue);

 private:
  struct Entry {
    std::atomic<Sequence> operation{0};  // 0: the entry is being written
    std::atomic<TimePoint> deadline{};
    std::atomic<bool> on_device{false};
  };
  struct UnderWay {
    Sequence operation = 0;
    TimePoint deadline;
    bool on_device = false;
  };
  std::optional<UnderWay> Find(Sequence operation) const;
  // Of the pending operations from `first` to the last for which a stream waits, returns the one with the earliest
  // deadline.
  std::optional<UnderWay> FindMostUrgent(Sequence first) const;
  bool SomeStreamWaits() const { return watched_.completed() < last_waited_for_.load(); }
  void Run();
  bool WaitForNextCheck(TimePoint now);  // false: the watchdog has been stopped
  bool Look(TimePoint now);              // false: the watchdog has nothing more to do
  bool LookAfterFailure();

  WatchedStreams& watched_;
  const Clock& clock_;
  const Duration look_every_;
  std::vector<Entry> entries_;
  std::atomic<Sequence> last_waited_for_{0};  // the latest operation for which a stream waits

  // Only the watchdog's thread uses the members from here to next_look_.
  Sequence operation_ = 0;  // the first pending operation at the last check
  std::uint64_t looks_ = 0;
  // Numbers of consecutive checks: still_ counts those without progress, idle_ those without a waiting stream, failed_
  // those after the failure.
  int still_ = 0, idle_ = 0, failed_ = 0;
  TimePoint still_since_{}, next_look_{};

  std::atomic<bool> sleeps_{false};
  std::mutex mutex_;  // guards stop_, and is used with changed_
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;  // last, because it uses all other members
};

}  // namespace rondo
