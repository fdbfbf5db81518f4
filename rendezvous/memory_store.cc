#include "rendezvous/memory_store.h"

#include "rendezvous/store_arguments.h"

namespace rondo {
namespace {

Result<std::vector<std::string>> Copied(const Result<std::vector<StoreState::Value>>& values) {
  if (!values) return tl::unexpected(values.error());
  std::vector<std::string> copies;
  copies.reserve(values->size());
  for (const StoreState::Value& value : *values) copies.push_back(*value);
  return copies;
}

}  // namespace

Status MemoryStore::SetMany(std::span<const KeyValue> entries, TimePoint) {
  RONDO_TRY(CheckEntries(entries));
  const std::lock_guard lock(mutex_);
  RONDO_TRY(state_.Set(entries));
  WakeFinished();
  return {};
}

Result<std::vector<std::optional<std::string>>> MemoryStore::GetMany(std::span<const std::string> keys, TimePoint) {
  RONDO_TRY(CheckKeys(keys));
  const std::lock_guard lock(mutex_);
  std::vector<std::optional<std::string>> values;
  values.reserve(keys.size());
  for (const StoreState::Value& value : state_.Get(keys)) {
    values.push_back(value == nullptr ? std::nullopt : std::optional(*value));
  }
  return values;
}

Result<std::vector<std::string>> MemoryStore::Wait(std::span<const std::string> keys, const WaitOptions& options) {
  RONDO_TRY(CheckWait(keys, options.cancel_key));
  std::unique_lock lock(mutex_);
  StoreState::StartedWait started = state_.Wait(keys, options.cancel_key);
  if (started.finished) return Copied(*started.finished);

  Waiter waiter;
  waiters_.emplace(started.id, &waiter);
  waiter.woken.wait_until(lock, options.deadline, [&] { return waiter.outcome.has_value(); });
  waiters_.erase(started.id);
  if (waiter.outcome) return Copied(*waiter.outcome);
  return tl::unexpected(InStore(Describe(), MissingKeys(state_.Abandon(started.id), keys.size())));
}

Result<std::int64_t> MemoryStore::Add(std::string_view key, std::int64_t delta, TimePoint) {
  RONDO_TRY(CheckKey(key));
  const std::lock_guard lock(mutex_);
  auto sum = state_.Add(key, delta);
  WakeFinished();
  return sum;
}

Result<CompareSetResult> MemoryStore::CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                                 std::string_view desired, TimePoint) {
  RONDO_TRY(CheckCompareSet(key, expected, desired));
  const std::lock_guard lock(mutex_);
  auto result = state_.CompareSet(key, expected, desired);
  WakeFinished();
  return result;
}

Result<std::size_t> MemoryStore::DeleteMany(std::span<const std::string> keys, TimePoint) {
  RONDO_TRY(CheckKeys(keys));
  const std::lock_guard lock(mutex_);
  return state_.Delete(keys);
}

void MemoryStore::WakeFinished() {
  for (StoreState::FinishedWait& finished : state_.TakeFinished()) {
    Waiter& waiter = *waiters_.at(finished.id);
    waiter.outcome = std::move(finished.values);
    waiter.woken.notify_one();
  }
}

}  // namespace rondo
