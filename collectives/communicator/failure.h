// The failure of a communicator: its first cause, how far the communicator has ended for it, and the notices by which
// the peers learn it, so that all ranks name the same cause.
//
// Thread rule: any thread; transitions name theirs. state() and what is asked by it is one atomic load. No other lock
// is taken while this one is held, except by FailureListener::OnFailing.
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

// A communicator, as its failure calls it: once, from the thread that has found the first cause.
class FailureListener {
 public:
  // Before any other thread sees the failure, with a lock held.
  virtual void OnFailing() = 0;
  // The peers have been notified.
  virtual void OnFailed() = 0;

 protected:
  ~FailureListener() = default;
};

class Failure {
 public:
  enum class State : std::uint8_t {
    kSound,
    kFailed,    // there is a first cause
    kNotified,  // the peers have been notified of it, as far as they could be
    kEnding,    // the owner ends all operations
    kEnded,     // nothing but launched graphs uses the memory of any operation
  };
  enum class Source : std::uint8_t {
    kThisRank,
    kNotice,  // of a peer
  };

  // All references outlive it.
  Failure(const RankNames& names, Peers& peers, const SharedEndpoint& endpoint, const Clock& clock,
          FailureListener& listener)
      : names_(names), peers_(peers), endpoint_(endpoint), clock_(clock), listener_(listener) {}

  State state() const { return state_.load(); }
  bool has_failed() const { return state() >= State::kFailed; }
  bool has_ended() const { return state() == State::kEnded; }

  // ---- transitions ----
  // Any thread, for each error that it finds. The first error becomes the cause, and that call notifies the peers
  // before it returns; every other call returns at once. `reporter`: the rank that found it; nullopt: this one;
  // kNoRank: one that is not of this group. Without memory for words the communicator fails all the same; peers then
  // learn it by their lanes, which end.
  void Begin(Error cause, std::optional<Rank> reporter = std::nullopt, Source source = Source::kThisRank) noexcept;
  // What `step`() says: whether it has changed anything. Where memory runs out in it, the communicator fails: true.
  template <typename Step>
  bool Guard(std::string_view doing, Step&& step) {
    try {
      return step();
    } catch (const std::bad_alloc&) {
      Begin(OutOfMemoryWhile(doing));
      return true;
    }
  }
  // What `call`(), a Result or Status, returns to the user. Where memory runs out in it the communicator fails, since
  // the other ranks count on this one.
  template <typename Call>
  auto GuardCall(std::string_view doing, Call&& call) -> decltype(call()) {
    auto result = OrOutOfMemory(doing, std::forward<Call>(call));
    if (result || result.error().code() != ErrorCode::kOutOfMemory) return result;
    Error error = result.error();
    IfMemoryAllows([&] { error = names_.WithCulpritsHost(error); });
    Begin(error);
    return rondo::Fail(std::move(error));
  }
  // The owner, once the peers have been notified. Notifies those that have connected since: they wait for this rank
  // from now on.
  void BeginEnd();
  // The owner, after BeginEnd: the cause as `change`(cause) has it, who adds what was known of the operation.
  template <typename Change>
  void RefineCause(const Change& change) {
    const MutexLock lock(mutex_);
    cause_ = change(*cause_);
  }
  // The owner.
  void End() { Enter(State::kEnded); }

  // ---- notices ----
  // Sends one to every connected peer that has got none. Does nothing while there is no cause.
  void NotifyPeers();
  // A peer has sent something that asks for this rank. Sends it a notice if there is a cause; whether there is.
  bool Answer(Rank peer);
  // Leaves one for peers that connect later than the endpoint ends.
  void LeaveNotice();
  // The owner, before the endpoint ends. A connection that was still being made when a notice was sent gets a moment to
  // carry it. `peers_may_connect`: ranks that are not connected yet may look for this one. They get a moment, too, to
  // connect and be notified, unless the cause came by a notice: then other ranks know it as well.
  void FlushNotices(bool peers_may_connect, const GracePeriods& graces, ProgressLock& lock);

  // ---- questions ----
  // nullopt: kSound.
  std::optional<Error> cause() const {
    const MutexLock lock(mutex_);
    return cause_;
  }
  Rank reporter() const {
    const MutexLock lock(mutex_);
    return reporter_;
  }

 private:
  // Whether this is the first cause.
  bool Set(const Error& cause, Rank reporter, Source source);
  void Enter(State next);
  void Notify(const Error& error, Rank reporter);
  // Until when FlushNotices waits for peers that connect; nullopt: it does not.
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
