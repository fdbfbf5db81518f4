#include "rendezvous/prefix_store.h"

#include "rendezvous/store_arguments.h"

namespace rondo {

// The caller's keys are checked here, because an empty key would pass the check after the prefix is added. The inner
// store checks the full keys.

std::vector<std::string> PrefixStore::Full(std::span<const std::string> keys) const {
  std::vector<std::string> full;
  full.reserve(keys.size());
  for (const std::string& key : keys) full.push_back(Full(key));
  return full;
}

Status PrefixStore::SetMany(std::span<const KeyValue> entries, TimePoint deadline) {
  RONDO_TRY(CheckEntries(entries));
  std::vector<KeyValue> full;
  full.reserve(entries.size());
  for (const auto& [key, value] : entries) full.push_back({Full(key), value});
  return inner_.SetMany(full, deadline);
}

Result<std::vector<std::optional<std::string>>> PrefixStore::GetMany(std::span<const std::string> keys,
                                                                     TimePoint deadline) {
  RONDO_TRY(CheckKeys(keys));
  return inner_.GetMany(Full(keys), deadline);
}

Result<std::vector<std::string>> PrefixStore::Wait(std::span<const std::string> keys, const WaitOptions& options) {
  RONDO_TRY(CheckWait(keys, options.cancel_key));
  WaitOptions full = options;
  if (!full.cancel_key.empty()) full.cancel_key = Full(full.cancel_key);
  return inner_.Wait(Full(keys), full);
}

Result<std::int64_t> PrefixStore::Add(std::string_view key, std::int64_t delta, TimePoint deadline) {
  RONDO_TRY(CheckKey(key));
  return inner_.Add(Full(key), delta, deadline);
}

Result<CompareSetResult> PrefixStore::CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                                 std::string_view desired, TimePoint deadline) {
  RONDO_TRY(CheckCompareSet(key, expected, desired));
  return inner_.CompareSet(Full(key), expected, desired, deadline);
}

Result<std::size_t> PrefixStore::DeleteMany(std::span<const std::string> keys, TimePoint deadline) {
  RONDO_TRY(CheckKeys(keys));
  return inner_.DeleteMany(Full(keys), deadline);
}

}  // namespace rondo
