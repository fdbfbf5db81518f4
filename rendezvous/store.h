// The contract of a store, which is a small shared key-value service. Ranks find each other through the store, because
// each rank writes its address there.
//
// Keys are text of 1..kMaxKeyBytes bytes. Values are any bytes, at most kMaxValueBytes. kInvalidArgument names a key
// that breaks a limit. Every call has an absolute deadline, because every call may cross a network. A call that passes
// its deadline gives kStoreTimeout; the error of a Wait lists the missing keys. If the connection to the store is lost,
// every call gives kStoreLost with the store's address. A call with several keys takes one round trip.
//
// Thread rule: any thread. A Wait does not delay the calls of other threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace rondo {

inline constexpr std::size_t kMaxKeyBytes = 1024;
inline constexpr std::size_t kMaxValueBytes = 1 << 20;
inline constexpr std::size_t kMaxBatch = 65536;
// The limit for the keys and values of one call together. If the arguments exceed it, the call gives kInvalidArgument.
// If the answer would exceed it, the call gives kResource.
inline constexpr std::size_t kMaxBatchBytes = 64 << 20;

struct KeyValue {
  std::string key;
  std::string value;
};

struct WaitOptions {
  TimePoint deadline;
  // If this key is not empty, its appearance cancels the Wait. Wait then fails with kAborted, and the message is the
  // key's value. If the key exists already, it cancels the Wait at once, unless all other keys exist. With such a key
  // one rank can end the Waits of all other ranks.
  std::string cancel_key;
};

struct CompareSetResult {
  bool swapped = false;
  // The value now stored: `desired` if swapped, otherwise the value that did not match ("" if the key is absent).
  std::string current;
};

class Store {
 public:
  virtual ~Store() = default;

  // The address of the store, for messages: "tcp://10.0.0.1:29500", "file:///tmp/x".
  virtual std::string Describe() const = 0;

  // Writes all entries and replaces earlier values of their keys.
  virtual Status SetMany(std::span<const KeyValue> entries, TimePoint deadline) = 0;
  // Gives the value of each key in order, nullopt for a key that does not exist. Does not wait for keys.
  virtual Result<std::vector<std::optional<std::string>>> GetMany(std::span<const std::string> keys,
                                                                  TimePoint deadline) = 0;
  // Waits until all keys exist and gives their values in order. kStoreTimeout lists the missing ones.
  virtual Result<std::vector<std::string>> Wait(std::span<const std::string> keys, const WaitOptions& options) = 0;
  // Adds `delta` to a decimal integer and gives the sum; an absent key counts as 0. kInvalidArgument: the value is not
  // an integer, or the sum exceeds 64 bits.
  virtual Result<std::int64_t> Add(std::string_view key, std::int64_t delta, TimePoint deadline) = 0;
  // Writes `desired` if the key holds `expected`, in one atomic step. `expected` nullopt means that the key must be
  // absent.
  virtual Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                              std::string_view desired, TimePoint deadline) = 0;
  // Removes the keys and gives the number of those that existed.
  virtual Result<std::size_t> DeleteMany(std::span<const std::string> keys, TimePoint deadline) = 0;

  // The functions below are short forms of the batched calls, for a single key.
  Status Set(std::string_view key, std::string_view value, TimePoint deadline);
  Result<std::optional<std::string>> Get(std::string_view key, TimePoint deadline);
  Result<std::string> WaitFor(std::string_view key, TimePoint deadline);
};

}  // namespace rondo
