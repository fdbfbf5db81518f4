// A corner of another store: every key gets a prefix, so that jobs, generations and communicators do not meet.
#pragma once

#include <memory>

#include "rendezvous/store.h"

namespace rondo {

// Keys may have kMaxKeyBytes less the prefix. Messages show the full keys, as the inner store has them.
// Thread rule: any thread.
class PrefixStore final : public Store {
 public:
  // `inner` outlives this one.
  PrefixStore(Store& inner, std::string prefix) : inner_(inner), prefix_(std::move(prefix)) {}

  std::string Describe() const override { return inner_.Describe(); }
  Status SetMany(std::span<const KeyValue> entries, TimePoint deadline) override;
  Result<std::vector<std::optional<std::string>>> GetMany(std::span<const std::string> keys,
                                                          TimePoint deadline) override;
  Result<std::vector<std::string>> Wait(std::span<const std::string> keys, const WaitOptions& options) override;
  Result<std::int64_t> Add(std::string_view key, std::int64_t delta, TimePoint deadline) override;
  Result<CompareSetResult> CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                      std::string_view desired, TimePoint deadline) override;
  Result<std::size_t> DeleteMany(std::span<const std::string> keys, TimePoint deadline) override;

 private:
  std::string Full(std::string_view key) const { return prefix_ + std::string(key); }
  std::vector<std::string> Full(std::span<const std::string> keys) const;

  Store& inner_;
  const std::string prefix_;
};

}  // namespace rondo
