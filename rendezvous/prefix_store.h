// A view of another store in which every key gets a prefix. It keeps the keys of jobs, generations and communicators
// apart.
#pragma once

#include <memory>

#include "rendezvous/store.h"

namespace rondo {

// A key with the prefix has at most kMaxKeyBytes bytes. Messages show the full keys of the inner store. Thread rule:
// any thread.
class PrefixStore final : public Store {
 public:
  // `inner` must outlive this store.
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
