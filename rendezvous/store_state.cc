#include "rendezvous/store_state.h"

#include <utility>

#include "rendezvous/store_arguments.h"

namespace rondo {
namespace {

std::size_t EntryBytes(std::string_view key, std::string_view value) {
  return key.size() + value.size() + StoreState::kEntryOverheadBytes;
}

std::size_t WaitBytes(std::span<const std::string> keys, std::string_view cancel_key) {
  std::size_t bytes = EntryBytes(cancel_key, {});
  for (const std::string& key : keys) bytes += EntryBytes(key, {});
  return bytes;
}

}  // namespace

const StoreState::Value* StoreState::Find(std::string_view key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

Status StoreState::CheckRoom(std::size_t new_bytes, std::size_t old_bytes) const {
  if (bytes_ + new_bytes > limits_.max_bytes + old_bytes) {
    return Fail(ErrorCode::kResource, "the store holds {} of at most {} bytes, so there is no room for {} more", bytes_,
                limits_.max_bytes, new_bytes - old_bytes);
  }
  return {};
}

Status StoreState::Set(std::span<const KeyValue> entries) {
  // Contains each key once, with the size of its final value. If a key occurs twice in the batch, only its final value
  // is stored, and it replaces only one old value.
  std::map<std::string_view, std::size_t> bytes_of;
  for (const auto& [key, value] : entries) bytes_of[key] = EntryBytes(key, value);
  std::size_t new_bytes = 0;
  std::size_t old_bytes = 0;
  for (const auto& [key, bytes] : bytes_of) {
    new_bytes += bytes;
    if (const Value* old = Find(key)) old_bytes += EntryBytes(key, **old);
  }
  RONDO_TRY(CheckRoom(new_bytes, old_bytes));
  for (const auto& [key, value] : entries) Put(key, value);
  // Waiters are notified after all entries are written, so that no Wait sees a part of the batch.
  for (const auto& [key, value] : entries) Appeared(key);
  return {};
}

std::vector<StoreState::Value> StoreState::Get(std::span<const std::string> keys) const {
  std::vector<Value> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) {
    const Value* value = Find(key);
    values.push_back(value == nullptr ? nullptr : *value);
  }
  return values;
}

Result<std::int64_t> StoreState::Add(std::string_view key, std::int64_t delta) {
  const Value* old = Find(key);
  RONDO_ASSIGN(const std::int64_t sum,
               AddToCounter(key, old == nullptr ? std::nullopt : std::optional<std::string_view>(**old), delta));
  const std::string text = std::to_string(sum);
  RONDO_TRY(CheckRoom(EntryBytes(key, text), old == nullptr ? 0 : EntryBytes(key, **old)));
  Put(key, text);
  Appeared(key);
  return sum;
}

Result<CompareSetResult> StoreState::CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                                std::string_view desired) {
  const Value* old = Find(key);
  const bool matches = old == nullptr ? !expected.has_value() : expected == std::string_view(**old);
  if (!matches) return CompareSetResult{.swapped = false, .current = old == nullptr ? std::string() : **old};
  RONDO_TRY(CheckRoom(EntryBytes(key, desired), old == nullptr ? 0 : EntryBytes(key, **old)));
  Put(key, desired);
  Appeared(key);
  return CompareSetResult{.swapped = true, .current = std::string(desired)};
}

std::size_t StoreState::Delete(std::span<const std::string> keys) {
  std::size_t existed = 0;
  for (const std::string& key : keys) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) continue;
    bytes_ -= EntryBytes(key, *found->second);
    entries_.erase(found);
    ++existed;
  }
  return existed;
}

StoreState::StartedWait StoreState::Wait(std::span<const std::string> keys, std::string_view cancel_key) {
  PendingWait wait{.keys = {keys.begin(), keys.end()}, .cancel_key = std::string(cancel_key), .watched = 0};
  if (auto values = Advance(wait)) return {.id = 0, .finished = std::move(*values)};
  if (const Value* cancelled = cancel_key.empty() ? nullptr : Find(cancel_key)) {
    return {.id = 0, .finished = tl::unexpected(Error(ErrorCode::kAborted, **cancelled))};
  }
  const std::size_t bytes = WaitBytes(keys, cancel_key);
  if (wait_bytes_ + bytes > limits_.max_wait_bytes) {
    return {.id = 0,
            .finished = Fail(
                ErrorCode::kResource,
                "the store has no room for another wait: the keys of its {} pending waits have {} of at most {} bytes",
                waits_.size(), wait_bytes_, limits_.max_wait_bytes)};
  }
  const WaitId id = ++last_wait_;
  wait_bytes_ += bytes;
  Watch(wait.keys[wait.watched], id);
  if (!cancel_key.empty()) Watch(cancel_key, id);
  waits_.emplace(id, std::move(wait));
  return {.id = id, .finished = std::nullopt};
}

std::size_t StoreState::KeysOf(WaitId id) const {
  const auto found = waits_.find(id);
  return found == waits_.end() ? 0 : found->second.keys.size();
}

std::vector<std::string> StoreState::Abandon(WaitId id) {
  const auto found = waits_.find(id);
  if (found == waits_.end()) return {};
  std::vector<std::string> missing;
  for (std::string& key : found->second.keys) {
    if (Find(key) == nullptr) missing.push_back(key);
  }
  Erase(id);
  return missing;
}

void StoreState::Put(std::string_view key, std::string_view value) {
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    found = entries_.emplace(std::string(key), nullptr).first;
  } else {
    bytes_ -= EntryBytes(key, *found->second);
  }
  found->second = std::make_shared<const std::string>(value);
  bytes_ += EntryBytes(key, value);
}

void StoreState::Appeared(std::string_view key) {
  const auto found = watchers_.find(key);
  if (found == watchers_.end()) return;
  const std::vector<WaitId> ids(found->second.begin(), found->second.end());
  for (const WaitId id : ids) {
    PendingWait& wait = waits_.at(id);
    const std::string watched = wait.keys[wait.watched];
    if (auto values = Advance(wait)) {
      finished_.push_back({.id = id, .values = std::move(*values)});
    } else if (wait.cancel_key == key) {
      finished_.push_back({.id = id, .values = tl::unexpected(Error(ErrorCode::kAborted, **Find(key)))});
    } else {
      if (watched != wait.cancel_key) Unwatch(watched, id);
      Watch(wait.keys[wait.watched], id);
      continue;
    }
    Unwatch(watched, id);
    Erase(id);
  }
}

std::optional<std::vector<StoreState::Value>> StoreState::Advance(PendingWait& wait) const {
  while (wait.watched < wait.keys.size() && Find(wait.keys[wait.watched]) != nullptr) ++wait.watched;
  if (wait.watched < wait.keys.size()) return std::nullopt;
  // Each key existed at some time, but a key that existed earlier may have been deleted since.
  std::vector<Value> values = Get(wait.keys);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != nullptr) continue;
    wait.watched = i;
    return std::nullopt;
  }
  return values;
}

void StoreState::Watch(std::string_view key, WaitId id) {
  const auto found = watchers_.find(key);
  if (found != watchers_.end()) {
    found->second.insert(id);
  } else {
    watchers_.emplace(std::string(key), std::set<WaitId>{id});
  }
}

void StoreState::Unwatch(std::string_view key, WaitId id) {
  const auto found = watchers_.find(key);
  if (found == watchers_.end()) return;
  found->second.erase(id);
  if (found->second.empty()) watchers_.erase(found);
}

void StoreState::Erase(WaitId id) {
  const auto found = waits_.find(id);
  const PendingWait& wait = found->second;
  if (wait.watched < wait.keys.size()) Unwatch(wait.keys[wait.watched], id);
  if (!wait.cancel_key.empty()) Unwatch(wait.cancel_key, id);
  wait_bytes_ -= WaitBytes(wait.keys, wait.cancel_key);
  waits_.erase(found);
}

}  // namespace rondo
