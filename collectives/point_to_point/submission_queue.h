// Sends and receives on their way from the threads that issue them to the message engine.
//
// Thread rules stand at each group of methods. One lock, a leaf, guards what is handed over; the counters are atomics,
// so that the owner (the thread that holds the progress lock) looks at nothing else while nothing was submitted.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/thread_annotations.h"
#include "collectives/point_to_point/operation.h"

namespace rondo {

class SubmissionQueue {
 public:
  // At most `max_pending` operations are submitted and not final.
  explicit SubmissionQueue(std::uint32_t max_pending) : max_pending_(max_pending) {}

  // ---- any thread ----
  // All of them or none, and counts their deadlines from `now`. `record`(operation) is called for each of them with the
  // lock held. kResource: too many are pending; otherwise what Refuse was given.
  template <typename Record>
  Status Submit(std::initializer_list<MessageOperation*> operations, TimePoint now, const Record& record) {
    const MutexLock lock(mutex_);
    RONDO_TRY(MaySubmit(operations.size()));
    for (MessageOperation* operation : operations) {
      operation->deadline = Later(now, operation->timeout);
      record(*operation);
      submitted_.PushBack(*operation);
    }
    pending_.fetch_add(static_cast<std::uint32_t>(operations.size()));
    is_waiting_.store(true);
    in_use_.store(true);
    return {};
  }
  // Refuses all later submissions with `error`; the first error given stays.
  void Refuse(Error error);
  // The same, because this rank closes. Operations that were submitted before still end.
  void Close(Error error);
  // A peer has opened its lane of messages to this rank.
  void OnPeerCall(Rank from);

  // Whether anything was ever submitted, or a peer has called.
  bool in_use() const { return in_use_.load(std::memory_order_relaxed); }
  // Submitted and not final.
  std::uint32_t pending() const { return pending_.load(); }
  // Submitted, and not taken yet.
  bool is_waiting() const { return is_waiting_.load(); }

  // ---- the owner ----
  // The next one, in the order of submission; null: there is none.
  MessageOperation* Take();
  // Peers that have called since the last time.
  std::vector<Rank> TakePeerCalls();
  bool has_peer_calls() const { return has_peer_calls_.load(); }
  // After Close: nothing is submitted any more, once what is waiting has been taken.
  bool is_closed() const { return is_closed_.load(); }
  // `count` operations have become final.
  void OnFinished(std::uint32_t count) { pending_.fetch_sub(count); }

 private:
  Status MaySubmit(std::size_t count) const RONDO_REQUIRES(mutex_);

  const std::uint32_t max_pending_;
  std::atomic<bool> in_use_{false};
  std::atomic<bool> is_closed_{false};
  std::atomic<std::uint32_t> pending_{0};
  std::atomic<bool> is_waiting_{false};
  std::atomic<bool> has_peer_calls_{false};
  Mutex mutex_;
  StageList submitted_ RONDO_GUARDED_BY(mutex_);
  std::optional<Error> refusal_ RONDO_GUARDED_BY(mutex_);
  std::vector<Rank> peer_calls_ RONDO_GUARDED_BY(mutex_);
};

}  // namespace rondo
