// A store's content and its pending Waits, as a plain state machine without threads, clock or sockets. The memory store
// guards it with a lock, the TCP store's server feeds requests to it, and the file store replays its log into it.
//
// A pending Wait watches one missing key at a time, and its cancel key. A new key therefore affects only the Waits that
// watch this key. So a Wait for n keys needs only n steps, whatever the order in which the keys appear.
//
// REQUIRES: the caller has checked the arguments with the functions of store_arguments.h. Thread rule: one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "rendezvous/store.h"

namespace rondo {

class StoreState {
 public:
  // Shared, so that many answers can carry one value without copying it.
  using Value = std::shared_ptr<const std::string>;
  using WaitId = std::uint64_t;

  // Limits on the memory used. A call that would exceed a limit fails with kResource and changes nothing.
  struct Limits {
    std::size_t max_bytes = 256 << 20;  // limit for the sum of keys, values and kEntryOverheadBytes for each key
    // Limit for the keys of all pending Waits, with kEntryOverheadBytes for each key.
    std::size_t max_wait_bytes = 64 << 20;
  };
  static constexpr std::size_t kEntryOverheadBytes = 128;

  struct FinishedWait {
    WaitId id = 0;
    Result<std::vector<Value>> values;  // kAborted: the cancel key appeared; the message is its value
  };
  struct StartedWait {
    WaitId id = 0;
    std::optional<Result<std::vector<Value>>> finished;  // set if the Wait ended at once; `id` is then invalid
  };

  explicit StoreState(Limits limits) : limits_(limits) {}

  Status Set(std::span<const KeyValue> entries);
  // Gives the values in the order of `keys`; null for a key that does not exist.
  std::vector<Value> Get(std::span<const std::string> keys) const;
  Result<std::int64_t> Add(std::string_view key, std::int64_t delta);
  Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                      std::string_view desired);
  std::size_t Delete(std::span<const std::string> keys);

  // Waits until all keys exist at the same time, or, if `cancel_key` is not empty, until that key exists.
  StartedWait Wait(std::span<const std::string> keys, std::string_view cancel_key);
  // Gives the number of keys that a pending Wait awaits; 0 if `id` names no pending Wait.
  std::size_t KeysOf(WaitId id) const;
  // Ends a Wait and gives the keys that are still missing; empty if `id` names no pending Wait.
  std::vector<std::string> Abandon(WaitId id);
  // Gives the Waits that ended since the previous TakeFinished, in the order in which they ended.
  std::vector<FinishedWait> TakeFinished() { return std::exchange(finished_, {}); }

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }
  std::size_t pending_waits() const { return waits_.size(); }

 private:
  struct PendingWait {
    std::vector<std::string> keys;
    std::string cancel_key;
    std::size_t watched = 0;  // index in `keys` of the missing key that this Wait watches
  };

  const Value* Find(std::string_view key) const;
  Status CheckRoom(std::size_t new_bytes, std::size_t old_bytes) const;
  void Put(std::string_view key, std::string_view value);
  void Appeared(std::string_view key);
  // Gives the values if all keys exist; otherwise sets `watched` to a missing key and gives nullopt.
  std::optional<std::vector<Value>> Advance(PendingWait& wait) const;
  void Watch(std::string_view key, WaitId id);
  void Unwatch(std::string_view key, WaitId id);
  void Erase(WaitId id);

  const Limits limits_;
  std::map<std::string, Value, std::less<>> entries_;
  std::size_t bytes_ = 0;
  WaitId last_wait_ = 0;
  std::map<WaitId, PendingWait> waits_;
  std::size_t wait_bytes_ = 0;
  std::map<std::string, std::set<WaitId>, std::less<>> watchers_;
  std::vector<FinishedWait> finished_;
};

}  // namespace rondo
