// The queue that passes sends and receives from the issuing threads to the message engine.
//
// Each group of methods has its own thread rule. One lock guards the queued operations; no other lock is taken while it
// is held. The counters are atomics, so that the owner (the thread that holds the progress lock) does not take the lock
// while the queue is empty.
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
  // At most `max_pending` operations may be pending, that is, submitted and not final.
  explicit SubmissionQueue(std::uint32_t max_pending) : max_pending_(max_pending) {}

  // ---- any thread ----
  // Submits all operations or none, and sets their deadlines to `now` plus their timeouts. Calls `record`(operation)
  // for each operation, with the lock held. kResource: too many operations are pending. After Refuse or Close, Submit
  // returns the error that was passed to them.
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
  // Refuses all later submissions with `error`. If called again, the first error stays.
  void Refuse(Error error);
  // Refuses all later submissions with `error`, because this rank closes its communicator. Operations that are already
  // submitted still run to their end.
  void Close(Error error);
  // Must be called when a peer has opened its lane of messages to this rank.
  void OnPeerCall(Rank from);

  // True if an operation was ever submitted or OnPeerCall was ever called.
  bool in_use() const { return in_use_.load(std::memory_order_relaxed); }
  // The number of operations that are submitted and not final.
  std::uint32_t pending() const { return pending_.load(); }
  // Whether there are submitted operations that Take has not returned.
  bool is_waiting() const { return is_waiting_.load(); }

  // ---- the owner ----
  // The next operation in order of submission; null if there is none.
  MessageOperation* Take();
  // The peers for which OnPeerCall was called since the last TakePeerCalls.
  std::vector<Rank> TakePeerCalls();
  bool has_peer_calls() const { return has_peer_calls_.load(); }
  // Whether Close was called. If so and no operation is waiting, no more operations will come.
  bool is_closed() const { return is_closed_.load(); }
  // Must be called when `count` operations have become final.
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
