// Breaks a deadlock that would never end by itself (docs/GOTCHAS.md, CUDA). A stream waits for an operation, a call of
// the device's driver waits for that stream, and the thread that should end the operation is blocked in the driver
// behind that call. The driver does not detect this cycle. So the thread of this class, which never calls the driver,
// fails an operation that is past its deadline, instead of the owner. Then it releases the streams.
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

// The communicator that is watched. The watch's thread calls these methods. None of them may call the driver, or wait
// for a thread that does.
class WatchedStreams {
 public:
  virtual ~WatchedStreams() = default;
  virtual Sequence completed() const = 0;  // the last operation that has ended
  // Counts how often the owner has looked for progress. It does so at least every GracePeriods::heartbeat_interval,
  // unless a call blocks it.
  virtual std::uint64_t looks() const = 0;
  virtual bool is_driven() const = 0;  // some thread owns progress and is not asleep
  virtual bool has_failed() const = 0;
  virtual bool is_ending() const = 0;  // failed, and the owner is waiting until no operation uses any memory
  virtual bool has_ended() const = 0;  // failed, and the streams have been released
  // The owner has not returned for this long from a call, which may be one of the driver. Called once for an operation.
  virtual void OnHeldUp(Sequence operation, Duration time) = 0;
  // The operation is past its deadline and must be failed.
  virtual void OnLate(Sequence operation, bool is_held_up) = 0;
  virtual void LetStreamsGo() = 0;
};

class StreamWatch {
 public:
  static constexpr Duration kLookEvery = std::chrono::milliseconds(500);
  // Numbers of consecutive checks that find the owner at the same point. After kLooksUntilHeldUp the owner is reported
  // as held up; after kLooksUntilGivenUp the watch fails an operation that is late. If the whole process was stopped,
  // its owner has run again by then.
  static constexpr int kLooksUntilHeldUp = 4;
  static constexpr int kLooksUntilGivenUp = 2;
  // If the owner works on an operation of the host, the watch waits for this many checks before it does either: the
  // owner may be in a function of the user, which may take long.
  static constexpr int kLooksAtWork = 40;
  // How long after its deadline the watch leaves an operation to the owner, unless the owner is held up.
  static constexpr Duration kOwnerSpeaksFirst = std::chrono::seconds(1);
  // Number of checks after a failure until the watch releases the streams, unless the owner has made sure by then that
  // no operation uses any memory. The second number applies if the owner has begun to do so: it may wait for long
  // copies, or be held up.
  static constexpr int kLooksUntilLetGo = 4;
  static constexpr int kLooksWhileEnding = 40;
  // The thread sleeps after this many checks that found no waiting stream.
  static constexpr int kLooksUntilAsleep = 20;

  // References must outlive this object. `most_operations`: limit of pending operations. Throws as std::thread does.
  StreamWatch(WatchedStreams& watched, const Clock& clock, std::size_t most_operations,
              Duration look_every = kLookEvery);
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  struct Issue {
    TimePoint deadline;
    bool on_device = false;
    bool stream_waits = false;
  };
  // Issuer only. Must be called for every operation, because operations for which streams wait come after others.
  void Issued(Sequence operation, const Issue& issue);

 private:
  struct Entry {
    std::atomic<Sequence> operation{0};  // 0: being written
    std::atomic<TimePoint> deadline{};
    std::atomic<bool> on_device{false};
  };
  struct UnderWay {
    Sequence operation = 0;
    TimePoint deadline;
    bool on_device = false;
  };
  std::optional<UnderWay> Find(Sequence operation) const;
  // The operation with the earliest deadline, among the pending ones from `first` to the last for which a stream waits.
  std::optional<UnderWay> FindMostUrgent(Sequence first) const;
  bool SomeStreamWaits() const { return watched_.completed() < last_waited_for_.load(); }
  void Run();
  bool Rest(TimePoint now);  // false: the watch has been stopped
  bool Look(TimePoint now);  // false: nothing is left to do
  bool LookAfterFailure();

  WatchedStreams& watched_;
  const Clock& clock_;
  const Duration look_every_;
  std::vector<Entry> entries_;
  std::atomic<Sequence> last_waited_for_{0};  // the last operation for which a stream waits

  // Used by the thread only.
  Sequence operation_ = 0;  // the first pending operation at the last check
  std::uint64_t looks_ = 0;
  int still_ = 0, idle_ = 0, failed_ = 0;  // numbers of consecutive checks that found this
  TimePoint still_since_{}, next_look_{};

  std::atomic<bool> sleeps_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;  // last, because it uses all other members
};

}  // namespace rondo
