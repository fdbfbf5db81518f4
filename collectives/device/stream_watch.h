// Ends what would never end: a stream waits for an operation, a call of the device's driver waits for that stream, and
// whoever would end the operation waits in the driver for that call (docs/GOTCHAS.md, CUDA). The driver does not know
// of this circle, and nobody in it can leave it. A thread that never calls the driver can: where an operation is past
// its deadline and nobody has said so, it fails it in its owner's stead, and then lets the streams go.
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

// What is watched. The watch's thread calls all of this; none of it may call the driver, or wait for one who does.
class WatchedStreams {
 public:
  virtual ~WatchedStreams() = default;
  virtual Sequence completed() const = 0;  // the last operation that has ended
  // How often whoever drives has looked around, which is at least every GracePeriods::heartbeat_interval unless he is
  // kept in a call.
  virtual std::uint64_t looks() const = 0;
  virtual bool is_driven() const = 0;  // somebody drives at the moment, and does not sleep
  virtual bool has_failed() const = 0;
  virtual bool is_ending() const = 0;  // failed, and somebody sees to it that nobody touches any memory
  virtual bool has_ended() const = 0;  // failed, and the streams have been let go
  // Who drives has not come back for so long from a call, which may be the driver's. Told once of an operation.
  virtual void OnHeldUp(Sequence operation, Duration time) = 0;
  // The operation is past its deadline. To fail.
  virtual void OnLate(Sequence operation, bool is_held_up) = 0;
  virtual void LetStreamsGo() = 0;
};

class StreamWatch {
 public:
  static constexpr Duration kLookEvery = std::chrono::milliseconds(500);
  // Looks that find whoever drives where the last one did, until he is said to be held up; and until he is taken for
  // one who will not come. A process that was stopped has had its turn by then.
  static constexpr int kLooksUntilHeldUp = 4;
  static constexpr int kLooksUntilGivenUp = 2;
  // Likewise, of who works on an operation of the host: on a function of the user's, say, which may be long.
  static constexpr int kLooksAtWork = 40;
  // An owner who can ends a late operation himself.
  static constexpr Duration kOwnerSpeaksFirst = std::chrono::seconds(1);
  // Looks that an owner has after a failure to see to it that nobody touches any memory, and has who is about it: he
  // may wait for copies that are long, or be held up.
  static constexpr int kLooksUntilLetGo = 4;
  static constexpr int kLooksWhileEnding = 40;
  // Looks that find no stream waiting, until the thread sleeps.
  static constexpr int kLooksUntilAsleep = 20;

  // References outlive it. At most `most_operations` are under way. Throws as std::thread does.
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
  // The issuer's. Of every operation, since those that streams wait for come after others.
  void Issued(Sequence operation, const Issue& issue);

 private:
  struct Entry {
    std::atomic<Sequence> operation{0};  // 0: it is being written
    std::atomic<TimePoint> deadline{};
    std::atomic<bool> on_device{false};
  };
  struct UnderWay {
    Sequence operation = 0;
    TimePoint deadline;
    bool on_device = false;
  };
  std::optional<UnderWay> Find(Sequence operation) const;
  // Of those under way from `first` to the last that a stream waits for, the one whose deadline comes first.
  std::optional<UnderWay> FindMostUrgent(Sequence first) const;
  bool SomeStreamWaits() const { return watched_.completed() < last_waited_for_.load(); }
  void Run();
  bool Rest(TimePoint now);  // false: it is over
  bool Look(TimePoint now);  // false: there is nothing to do any more
  bool LookAfterFailure();

  WatchedStreams& watched_;
  const Clock& clock_;
  const Duration look_every_;
  std::vector<Entry> entries_;
  std::atomic<Sequence> last_waited_for_{0};  // by a stream

  // The thread's.
  Sequence operation_ = 0;  // the first under way at the last look
  std::uint64_t looks_ = 0;
  int still_ = 0, idle_ = 0, failed_ = 0;  // looks that found it so, one after the other
  TimePoint still_since_{}, next_look_{};

  std::atomic<bool> sleeps_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace rondo
