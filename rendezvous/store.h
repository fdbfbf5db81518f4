// A small shared dictionary through which ranks find each other: who is there, at which address.
//
// Keys are text of 1..kMaxKeyBytes bytes, values any bytes up to kMaxValueBytes (kInvalidArgument names the key). Every
// call has an absolute deadline, because every call may have to cross a network; passing it gives kStoreTimeout, which
// names the keys that are missing. A store whose other end is gone gives kStoreLost with its address. Batched forms are
// one round trip.
//
// Thread rule: any thread; calls of different threads do not wait for each other's Wait.
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
// Keys and values of one call together: more in the arguments is kInvalidArgument, more in the answer kResource.
inline constexpr std::size_t kMaxBatchBytes = 64 << 20;

struct KeyValue {
  std::string key;
  std::string value;
};

struct WaitOptions {
  TimePoint deadline;
  // If this key (when not empty) appears first, or is there already while another is missing, Wait fails with kAborted
  // and the key's value as message: how one rank tells all waiting ones that waiting is pointless.
  std::string cancel_key;
};

struct CompareSetResult {
  bool swapped = false;
  std::string current;  // the value now stored: the desired one when swapped, else what stood in the way ("" if absent)
};

class Store {
 public:
  virtual ~Store() = default;

  // Where it is, for messages: "tcp://10.0.0.1:29500", "file:///tmp/x".
  virtual std::string Describe() const = 0;

  // Writes all, replacing what was there.
  virtual Status SetMany(std::span<const KeyValue> entries, TimePoint deadline) = 0;
  // The value of each key in order, or nullopt where there is none now. Does not wait for keys.
  virtual Result<std::vector<std::optional<std::string>>> GetMany(std::span<const std::string> keys,
                                                                  TimePoint deadline) = 0;
  // Waits until all keys exist and gives their values in order. kStoreTimeout lists the missing ones.
  virtual Result<std::vector<std::string>> Wait(std::span<const std::string> keys, const WaitOptions& options) = 0;
  // Adds to a decimal integer (absent counts as 0) and gives the sum. kInvalidArgument if the value is no integer.
  virtual Result<std::int64_t> Add(std::string_view key, std::int64_t delta, TimePoint deadline) = 0;
  // Writes `desired` if the key holds `expected` (nullopt: if the key is absent), atomically.
  virtual Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                              std::string_view desired, TimePoint deadline) = 0;
  // Removes them and says how many existed.
  virtual Result<std::size_t> DeleteMany(std::span<const std::string> keys, TimePoint deadline) = 0;

  // Conveniences on the batched forms.
  Status Set(std::string_view key, std::string_view value, TimePoint deadline);
  Result<std::optional<std::string>> Get(std::string_view key, TimePoint deadline);
  Result<std::string> WaitFor(std::string_view key, TimePoint deadline);
};

}  // namespace rondo
