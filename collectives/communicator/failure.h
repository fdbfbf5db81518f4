// The failure of a communicator: the first cause, the steps by which the communicator then ends, and the notices to
// peers. Because of these notices, all ranks name the same cause.
//
// Thread rule: any thread; the comment of each transition says which thread may call it. state() and the methods that
// only read it are one atomic load. No other lock is taken while this class's lock is held, except in
// FailureListener::OnFailing.
#pragma once

#include <atomic>
#include <cstdint>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/out_of_memory.h"
#include "base/result.h"
#include "base/thread_annotations.h"
#include "collectives/communicator/peers.h"
#include "collectives/communicator/progress_lock.h"
#include "collectives/communicator/rank_names.h"
#include "collectives/communicator/shared_endpoint.h"
#include "collectives/communicator/suspicion.h"

namespace rondo {

// Implemented by the communicator. Failure calls each method once, on the thread that found the first cause.
class FailureListener {
 public:
  // Called with Failure's lock held, before any other thread can see the failure.
  virtual void OnFailing() = 0;
  // Called after the peers have been notified.
  virtual void OnFailed() = 0;

 protected:
  ~FailureListener() = default;
};

class Failure {
 public:
  enum class State : std::uint8_t {
    kSound,
    kFailed,    // there is a first cause
    kNotified,  // connected peers have been notified of the first cause, as far as that was possible
    kEnding,    // the owner is ending all operations
    kEnded,     // nothing uses the memory of any operation any more, except launched graphs
  };
  enum class Source : std::uint8_t {
    kThisRank,
    kNotice,  // a notice from a peer
  };

  // All references outlive it.
  Failure(const RankNames& names, Peers& peers, const SharedEndpoint& endpoint, const Clock& clock,
          FailureListener& listener)
      : names_(names), peers_(peers), endpoint_(endpoint), clock_(clock), listener_(listener) {}

  State state() const { return state_.load(); }
  bool has_failed() const { return state() >= State::kFailed; }
  bool has_ended() const { return state() == State::kEnded; }

  // ---- transitions ----
  // Any thread may call it with any error that it finds. The first error becomes the cause, and that call notifies the
  // peers before it returns; every other call returns at once. `reporter`: the rank that found the error; nullopt: this
  // rank; kNoRank: a rank that is not of this communicator. If there is no memory for the notices, the communicator
  // fails nevertheless; peers then detect the failure when their lanes end.
  void Begin(Error cause, std::optional<Rank> reporter = std::nullopt, Source source = Source::kThisRank) noexcept;
  // Calls `step`, and returns its result: whether it has changed anything. If `step` runs out of memory, the
  // communicator fails, and the result is true.
  template <typename Step>
  bool Guard(std::string_view doing, Step&& step) {
    try {
      return step();
    } catch (const std::bad_alloc&) {
      Begin(OutOfMemoryWhile(doing));
      return true;
    }
  }
  // Calls `call`, and returns its Result or Status, which is for the user. If `call` runs out of memory, the
  // communicator fails, because the other ranks rely on this one.
  template <typename Call>
  auto GuardCall(std::string_view doing, Call&& call) -> decltype(call()) {
    auto result = OrOutOfMemory(doing, std::forward<Call>(call));
    if (result || result.error().code() != ErrorCode::kOutOfMemory) return result;
    Error error = result.error();
    IfMemoryAllows([&] { error = names_.WithCulpritsHost(error); });
    Begin(error);
    return rondo::Fail(std::move(error));
  }
  // For the owner, after the peers have been notified. Also notifies peers that have connected since then, because they
  // would otherwise wait for this rank.
  void BeginEnd();
  // For the owner, after BeginEnd: replaces the cause by `change`(cause), which adds facts about the operation.
  template <typename Change>
  void RefineCause(const Change& change) {
    const MutexLock lock(mutex_);
    cause_ = change(*cause_);
  }
  // For the owner, after all operations have ended.
  void End() { Enter(State::kEnded); }

  // ---- notices ----
  // Sends a notice to every connected peer that has got none. Does nothing while there is no cause.
  void NotifyPeers();
  // Call it when a peer has sent a message that needs an answer. If the communicator has failed, sends that peer a
  // notice and returns true.
  bool Answer(Rank peer);
  // Leaves a notice with the transport, for peers that connect only after the endpoint has ended.
  void LeaveNotice();
  // For the owner, before the endpoint ends. Waits a moment until the notices have left the process, because a
  // connection may not have been complete when its notice was sent. `peers_may_connect`: ranks that are not connected
  // yet may still look for this rank. They, too, get a moment to connect and to be notified. If this rank itself got
  // the cause by a notice, it does not wait for them, because other ranks can notify them.
  void FlushNotices(bool peers_may_connect, const GracePeriods& graces, ProgressLock& lock);

  // ---- queries ----
  // The first cause; nullopt: the communicator has not failed.
  std::optional<Error> cause() const {
    const MutexLock lock(mutex_);
    return cause_;
  }
  Rank reporter() const {
    const MutexLock lock(mutex_);
    return reporter_;
  }

 private:
  // Sets the cause if there is none yet. Returns whether it did.
  bool Set(const Error& cause, Rank reporter, Source source);
  void Enter(State next);
  void Notify(const Error& error, Rank reporter);
  // The time until which FlushNotices waits for peers to connect; nullopt: it does not wait.
  std::optional<TimePoint> WaitForPeersUntil(const GracePeriods& graces) const;

  const RankNames& names_;
  Peers& peers_;
  const SharedEndpoint& endpoint_;
  const Clock& clock_;
  FailureListener& listener_;
  std::atomic<State> state_{State::kSound};
  mutable Mutex mutex_;
  std::optional<Error> cause_ RONDO_GUARDED_BY(mutex_);
  Rank reporter_ RONDO_GUARDED_BY(mutex_) = kNoRank;
  TimePoint began_at_ RONDO_GUARDED_BY(mutex_){};
  Source source_ RONDO_GUARDED_BY(mutex_) = Source::kThisRank;
};

}  // namespace rondo
