// A store's content and the callers that wait in it, as a plain state machine: no threads, no clock, no sockets. The
// memory store locks it, the TCP store's server feeds it requests, the file store replays its log into it.
//
// A wait watches one missing key at a time (and its cancel key): a key that appears touches only those who are waiting
// for just that one, so a Wait for n keys costs n steps in all, whatever the order in which they come.
//
// Arguments have passed store_arguments.h. Thread rule: one thread at a time.
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

  // What may be held at once; beyond it the call that asks for more fails with kResource and changes nothing.
  struct Limits {
    std::size_t max_bytes = 256 << 20;      // keys, values and kEntryOverheadBytes for each key
    std::size_t max_wait_bytes = 64 << 20;  // the keys of all pending waits, counted alike
  };
  static constexpr std::size_t kEntryOverheadBytes = 128;

  struct FinishedWait {
    WaitId id = 0;
    Result<std::vector<Value>> values;  // kAborted: the cancel key appeared; the message is its value
  };
  struct StartedWait {
    WaitId id = 0;
    std::optional<Result<std::vector<Value>>> finished;  // at once; then the id names nothing
  };

  explicit StoreState(Limits limits) : limits_(limits) {}

  Status Set(std::span<const KeyValue> entries);
  std::vector<Value> Get(std::span<const std::string> keys) const;  // null where there is none
  Result<std::int64_t> Add(std::string_view key, std::int64_t delta);
  Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                      std::string_view desired);
  std::size_t Delete(std::span<const std::string> keys);

  // Waits until all keys exist at one time, or the cancel key (when not empty) does.
  StartedWait Wait(std::span<const std::string> keys, std::string_view cancel_key);
  // How many keys a pending wait awaits; 0 for an id that names none.
  std::size_t KeysOf(WaitId id) const;
  // Ends a wait and gives the keys that are still missing; empty for an id that names none.
  std::vector<std::string> Abandon(WaitId id);
  // The waits that the calls since the last TakeFinished have ended, in the order in which they ended.
  std::vector<FinishedWait> TakeFinished() { return std::exchange(finished_, {}); }

  std::size_t size() const { return entries_.size(); }
  std::size_t bytes() const { return bytes_; }
  std::size_t pending_waits() const { return waits_.size(); }

 private:
  struct PendingWait {
    std::vector<std::string> keys;
    std::string cancel_key;
    std::size_t watched = 0;  // index of the missing key that it is indexed under
  };

  const Value* Find(std::string_view key) const;
  Status CheckRoom(std::size_t new_bytes, std::size_t old_bytes) const;
  void Put(std::string_view key, std::string_view value);
  void Appeared(std::string_view key);
  // The values if all keys exist; else moves `watched` to a missing one.
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
