// A store in the memory of one process. The ranks are threads of this process. It is for tests, and for jobs that need
// no network.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>

#include "rendezvous/store.h"
#include "rendezvous/store_state.h"

namespace rondo {

// A Wait blocks in the kernel, at most until its deadline on SteadyClock. The other calls never block and ignore their
// deadlines. Thread rule: any thread. The store must outlive every call.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(StoreState::Limits limits = {}) : state_(limits) {}

  std::string Describe() const override { return "memory"; }
  Status SetMany(std::span<const KeyValue> entries, TimePoint deadline) override;
  Result<std::vector<std::optional<std::string>>> GetMany(std::span<const std::string> keys,
                                                          TimePoint deadline) override;
  Result<std::vector<std::string>> Wait(std::span<const std::string> keys, const WaitOptions& options) override;
  Result<std::int64_t> Add(std::string_view key, std::int64_t delta, TimePoint deadline) override;
  Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                      std::string_view desired, TimePoint deadline) override;
  Result<std::size_t> DeleteMany(std::span<const std::string> keys, TimePoint deadline) override;

 private:
  struct Waiter {
    std::condition_variable woken;
    std::optional<Result<std::vector<StoreState::Value>>> outcome;
  };

  // Gives the results of finished Waits to the threads that wait. REQUIRES: mutex_ is held.
  void WakeFinished();

  std::mutex mutex_;
  StoreState state_;                               // guarded by mutex_
  std::map<StoreState::WaitId, Waiter*> waiters_;  // guarded by mutex_; each Waiter is on its thread's stack
};

}  // namespace rondo
