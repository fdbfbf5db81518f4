// The collectives of a communicator that were issued and have not ended: a ring indexed by sequence number.
//
//   issuer                                        owner
//   OperationQueue::Issuer issuer(queue)          while (queue.HasCurrent()) {
//   queue.Reserve(request)                          run queue.Current()
//   queue.Publish(sequence)                         queue.Complete()
//                                                 }
//
// Thread rules: the issuer is the thread that holds the Issuer; the owner is the thread that holds the progress lock. A
// slot of the ring belongs to the issuer from Reserve to Publish, and then to the owner until Complete. The methods of
// the first group may be called by any thread. There is no lock: issued() publishes slots to the owner, and completed()
// gives them back to the issuer, and publishes results to waiting threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "collectives/engine/operation_request.h"

namespace rondo {

class OperationQueue {
 public:
  struct Operation {
    OperationRequest request;
    TimePoint issued;  // time of issue; like `deadline`, not set for an operation that ends in the call that issues it
    TimePoint deadline;  // after the operation is issued, only the owner may read or extend its deadline
  };

  // `max_pending`: the largest number of pending operations.
  OperationQueue(Rank rank, int world_size, std::uint32_t max_pending);

  // ---- any thread ----
  Sequence issued() const { return issued_.load(); }
  Sequence completed() const { return completed_.load(); }
  bool HasPending() const { return issued() > completed(); }
  // The number of slots of the ring: a power of two.
  std::size_t capacity() const { return mask_ + 1; }

  // ---- the issuer ----
  // Makes the calling thread the issuer. Converts to false if another thread is the issuer at the moment.
  class Issuer {
   public:
    explicit Issuer(OperationQueue& queue) : queue_(queue.is_issuing_.exchange(true) ? nullptr : &queue) {}
    ~Issuer() {
      if (queue_ != nullptr) queue_->is_issuing_.store(false, std::memory_order_release);
    }
    Issuer(const Issuer&) = delete;
    Issuer& operator=(const Issuer&) = delete;
    explicit operator bool() const { return queue_ != nullptr; }

   private:
    OperationQueue* const queue_;
  };

  // Copies the request and its counts into the slot of the next sequence number; the copy stays until the operation has
  // ended. Takes two slots if the request compares results. kResource: too many operations are pending. The owner does
  // not see the operation before Publish; without Publish, the next Reserve takes the same slot.
  Result<Operation*> Reserve(const OperationRequest& request);
  // Returns the memory for the checksums by which the ranks compare the results of `operation`. REQUIRES: `operation`
  // was just reserved. The next operation compares the checksums; its number is `sequence` of the returned object. The
  // memory stays valid until that operation has ended.
  ResultComparison& Compare(Operation& operation);
  Operation& At(Sequence sequence) { return slots_[(sequence - 1) & mask_]; }
  // Issues all operations up to `last`. The store is sequentially consistent: the issuer reads the progress lock next,
  // and an owner that falls asleep reads issued() after it has given up the lock. So one of these two threads sees what
  // the other wrote.
  void Publish(Sequence last) { issued_.store(last); }
  // Like Publish, but for an issuer that is also the owner: no other thread has to notice the operation.
  void PublishAsOwner(Sequence last) { issued_.store(last, std::memory_order_release); }

  // ---- the owner ----
  // The operation that runs, or runs next.
  Sequence current() const { return completed_.load(std::memory_order_relaxed) + 1; }
  bool HasCurrent() const { return current() <= issued_.load(std::memory_order_acquire); }
  Operation& Current() { return At(current()); }
  // Completes the current operation. The store is sequentially consistent, because a thread that parks first announces
  // that it parks, and then reads completed().
  void Complete() { completed_.store(current()); }
  // Like Complete, but for an operation that no other thread can wait for yet.
  void CompleteUnawaited() { completed_.store(current(), std::memory_order_release); }
  // The descriptor of the operation that ended last; with sequence 0 if none has ended.
  OperationDescriptor LastCompleted() {
    const Sequence last = completed_.load();
    return last > 0 ? At(last).request.descriptor : OperationDescriptor{};
  }
  // Gives every pending operation as much more time as it was pending between `begin` and `end`.
  void ExtendDeadlines(TimePoint begin, TimePoint end);

 private:
  // The counts of an operation whose counts differ by rank.
  struct KeptCounts {
    Sequence sequence = 0;  // sequence number of the operation that used this entry most recently
    std::vector<std::uint64_t> begins, sent, received;
    BlockCounts counts;
  };
  const BlockCounts* KeepCounts(const OperationRequest& request, Sequence sequence);
  // Returns an entry that no pending operation uses. `kept` never shrinks, because the owner holds pointers into it.
  template <typename Kept>
  Kept& Unused(std::deque<Kept>& kept) const;

  const Rank rank_;
  const int world_size_;
  const std::size_t max_pending_;
  std::vector<Operation> slots_;
  const std::size_t mask_;
  std::atomic<Sequence> issued_{0};
  std::atomic<Sequence> completed_{0};
  std::atomic<bool> is_issuing_{false};
  // Only the issuer changes these; the owner reads the entries to which its operations point.
  std::deque<KeptCounts> counts_;
  std::deque<ResultComparison> comparisons_;
};

}  // namespace rondo
