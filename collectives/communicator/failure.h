// The failure of a communicator: its first cause, and how far the communicator has ended for it.
//
// Thread rule: any thread; transitions name theirs. state() and what is asked by it is one atomic load. The lock is a
// leaf, but for what Begin calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"

namespace rondo {

class CommunicatorFailure {
 public:
  enum class State : std::uint8_t {
    kSound,
    kFailed,    // there is a first cause
    kNotified,  // the peers have been notified of it, as far as they could be
    kEnding,    // the owner ends all operations
    kEnded,     // nothing but launched graphs uses the memory of any operation
  };

  State state() const { return state_.load(); }
  bool has_failed() const { return state() >= State::kFailed; }
  bool has_ended() const { return state() == State::kEnded; }

  // ---- transitions ----
  // Any thread, as often as there are errors: the first one is the cause. Whether it is this one; then the caller
  // notifies the peers. `reporter`: the rank that found it; kNoRank: one that is not of this group. `before`() is
  // called before any other thread sees the failure, with the lock held.
  template <typename Before>
  bool Begin(const Error& cause, Rank reporter, TimePoint now, const Before& before) {
    const std::lock_guard lock(mutex_);
    if (cause_) return false;
    cause_ = cause;
    reporter_ = reporter;
    began_at_ = now;
    before();
    Enter(State::kFailed);
    return true;
  }
  // The thread for which Begin was true.
  void OnPeersNotified() { Enter(State::kNotified); }
  // The owner, once the peers have been notified.
  void BeginEnd() { Enter(State::kEnding); }
  // The owner, after BeginEnd: the cause as `change`(cause) has it, who adds what was known of the operation.
  template <typename Change>
  void RefineCause(const Change& change) {
    const std::lock_guard lock(mutex_);
    cause_ = change(*cause_);
  }
  void End() { Enter(State::kEnded); }

  // A notice has arrived. If there was no cause before, the failure is known elsewhere.
  void OnNotice() {
    const std::lock_guard lock(mutex_);
    was_noticed_first_ = was_noticed_first_ || !cause_;
  }

  // ---- questions ----
  // nullopt: kSound.
  std::optional<Error> cause() const {
    const std::lock_guard lock(mutex_);
    return cause_;
  }
  Rank reporter() const {
    const std::lock_guard lock(mutex_);
    return reporter_;
  }
  TimePoint began_at() const {
    const std::lock_guard lock(mutex_);
    return began_at_;
  }
  // Whether a peer's notice arrived before this rank found an error itself.
  bool came_by_notice() const {
    const std::lock_guard lock(mutex_);
    return was_noticed_first_;
  }

 private:
  void Enter(State next) {
    RONDO_CHECK(static_cast<int>(state_.load()) + 1 == static_cast<int>(next), "a failure skips a state");
    state_.store(next);
  }

  std::atomic<State> state_{State::kSound};
  mutable std::mutex mutex_;  // guards what follows
  std::optional<Error> cause_;
  Rank reporter_ = kNoRank;
  TimePoint began_at_{};
  bool was_noticed_first_ = false;
};

}  // namespace rondo
