// Memory that is not sequentially consistent, for the Explorer. A load may return any value that the C++ memory model
// still allows the thread to see, and every such value is tried. So this covers what ARM processors may do, except for
// two effects, which are described after the model.
//
// The model (after the operational "view" semantics of Kang et al., "A promising semantics for relaxed-memory
// concurrency", POPL 2017, without promises):
//   - Each atomic has the history of its stores. For each atomic, a thread remembers the oldest store that it may still
//     read. The thread reads no store that is older than a store which it has read or written, or than a store that
//     happens before the load.
//   - A release store carries the thread's view. An acquire load that reads the store adopts that view.
//   - A sequentially consistent load reads no store older than the latest sequentially consistent one.
//   - A read-modify-write reads the latest store.
//   - Plain memory (PlainCell) has no values; only its accesses are checked. Two accesses are a data race if one of
//     them is a write and neither happens before the other.
// Two effects are not modelled. First, stores take effect in the order in which they are made. So the model finds no
// error that needs two threads' stores to one atomic to be seen in another order. Second, a load is not reordered
// before earlier stores of its thread, except where reading a stale value has the same effect. For counters and flags
// with a single writer the model is sufficient.
//
//   Explorer explorer(3);
//   do {
//     WeakMemory memory(explorer, 2);
//     WeakAtomic<int> flag(memory, 0);
//     PlainCell data(memory);
//     explorer.Run({[&] { data.Write(); flag.store(1, std::memory_order_release); },
//                   [&] { if (flag.load(std::memory_order_acquire) == 1) data.Read(); }});
//     CHECK(memory.races() == 0);
//   } while (explorer.NextSchedule());
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/explorer.h"

namespace rondo {

class WeakMemory {
 public:
  WeakMemory(Explorer& explorer, std::size_t threads) : explorer_(explorer), seen_(threads) {
    for (Seen& seen : seen_) seen.clock.resize(threads);
  }
  int races() const { return races_; }

 private:
  template <typename T>
  friend class WeakAtomic;
  friend class PlainCell;

  // A thread's view, or the view that a store carries. `clock` has the latest known event of each thread. `oldest` has,
  // for each atomic, the oldest store that may still be read.
  struct Seen {
    std::vector<std::uint64_t> clock;
    std::vector<std::size_t> oldest;

    void Join(const Seen& other) {
      clock.resize(std::max(clock.size(), other.clock.size()));
      oldest.resize(std::max(oldest.size(), other.oldest.size()));
      for (std::size_t i = 0; i < other.clock.size(); ++i) clock[i] = std::max(clock[i], other.clock[i]);
      for (std::size_t i = 0; i < other.oldest.size(); ++i) oldest[i] = std::max(oldest[i], other.oldest[i]);
    }
  };

  std::size_t self() const { return explorer_.self(); }
  Seen& own() { return seen_[self()]; }
  std::size_t& Oldest(std::size_t atomic) {
    std::vector<std::size_t>& oldest = own().oldest;
    if (oldest.size() <= atomic) oldest.resize(atomic + 1);
    return oldest[atomic];
  }
  std::uint64_t Tick() { return ++own().clock[self()]; }

  Explorer& explorer_;
  std::vector<Seen> seen_;  // indexed by thread
  std::size_t atomics_ = 0;
  int races_ = 0;
};

template <typename T>
class WeakAtomic {
 public:
  WeakAtomic(WeakMemory& memory, T initial) : memory_(&memory), number_(memory.atomics_++) {
    history_.push_back({initial, {}});
  }

  T load(std::memory_order order) {
    memory_->explorer_.Step();
    memory_->Tick();
    std::size_t first = memory_->Oldest(number_);
    if (order == std::memory_order_seq_cst) first = std::max(first, last_seq_cst_);
    // No thread reads the same stale value twice in a row, because every store becomes visible eventually.
    const bool again = last_was_stale_ && last_reader_ == memory_->self() && last_read_ == first;
    if (again) ++first;
    // The newest store is tried first, so that the first schedules are those without stale values.
    const std::size_t back = memory_->explorer_.Pick(history_.size() - first);
    last_reader_ = memory_->self();
    last_read_ = history_.size() - 1 - back;
    last_was_stale_ = back > 0;
    return Read(last_read_, order);
  }
  // Replaces a loop of loads: waits until there is a store newer than the one that this thread read last.
  void AwaitNewer() {
    const std::size_t read = memory_->Oldest(number_);
    memory_->explorer_.BlockUntil([this, read] { return history_.size() - 1 > read; });
  }

  void store(T value, std::memory_order order) {
    memory_->explorer_.Step();
    Write(value, order, {});
  }

  bool compare_exchange_strong(T& expected, T value, std::memory_order order) {
    memory_->explorer_.Step();
    memory_->Tick();
    const T found = Read(history_.size() - 1, order);
    if (found != expected) {
      expected = found;
      return false;
    }
    Write(value, order, history_.back().carried);  // a read-modify-write continues the release sequence
    return true;
  }

 private:
  struct Store {
    T value;
    WeakMemory::Seen carried;
  };
  static bool Acquires(std::memory_order order) {
    return order != std::memory_order_relaxed && order != std::memory_order_release;
  }
  static bool Releases(std::memory_order order) {
    return order != std::memory_order_relaxed && order != std::memory_order_acquire;
  }

  T Read(std::size_t index, std::memory_order order) {
    memory_->Oldest(number_) = std::max(memory_->Oldest(number_), index);
    if (Acquires(order)) memory_->own().Join(history_[index].carried);
    return history_[index].value;
  }
  void Write(T value, std::memory_order order, WeakMemory::Seen carried) {
    memory_->Tick();
    memory_->Oldest(number_) = history_.size();
    if (Releases(order)) carried.Join(memory_->own());
    history_.push_back({value, std::move(carried)});
    if (order == std::memory_order_seq_cst) last_seq_cst_ = history_.size() - 1;
  }

  WeakMemory* memory_;
  std::size_t number_;
  std::vector<Store> history_;
  std::size_t last_seq_cst_ = 0;
  std::size_t last_reader_ = 0;
  std::size_t last_read_ = 0;
  bool last_was_stale_ = false;
};

// Plain memory without values. Only accesses are recorded.
class PlainCell {
 public:
  explicit PlainCell(WeakMemory& memory) : memory_(&memory) {}

  void Read() {
    const std::uint64_t now = memory_->Tick();
    Judge(written_by_, written_);
    if (reads_.size() <= memory_->self()) reads_.resize(memory_->self() + 1);
    reads_[memory_->self()] = now;
  }
  void Write() {
    const std::uint64_t now = memory_->Tick();
    Judge(written_by_, written_);
    for (std::size_t thread = 0; thread < reads_.size(); ++thread) Judge(thread, reads_[thread]);
    written_by_ = memory_->self();
    written_ = now;
  }

 private:
  void Judge(std::size_t thread, std::uint64_t when) {
    if (thread != memory_->self() && memory_->own().clock[thread] < when) ++memory_->races_;
  }

  WeakMemory* memory_;
  std::size_t written_by_ = 0;
  std::uint64_t written_ = 0;         // the time of the latest write; 0: before the threads began
  std::vector<std::uint64_t> reads_;  // for each thread, the time of its latest read
};

}  // namespace rondo
