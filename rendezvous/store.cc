#include "rendezvous/store.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "rendezvous/store_arguments.h"

namespace rondo {
namespace {

constexpr std::size_t kListedKeys = 8;
constexpr std::size_t kShownKeyBytes = 80;

std::string Quote(std::string_view key) {
  std::string shown(key.substr(0, kShownKeyBytes));
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return fmt::format("'{}{}'", shown, key.size() > kShownKeyBytes ? "..." : "");
}

Status CheckBatch(std::size_t count) {
  if (count > kMaxBatch) {
    return Fail(ErrorCode::kInvalidArgument, "a store was called with {} keys at once; at most {} are allowed", count,
                kMaxBatch);
  }
  return {};
}

Status CheckBatchBytes(std::size_t bytes, std::string_view last_key) {
  if (bytes > kMaxBatchBytes) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "a store was called with more than {} bytes of keys and values at once; the limit was reached at key {}",
        kMaxBatchBytes, Quote(last_key));
  }
  return {};
}

}  // namespace

Status Store::Set(std::string_view key, std::string_view value, TimePoint deadline) {
  const KeyValue entry{std::string(key), std::string(value)};
  return SetMany(std::span(&entry, 1), deadline);
}

Result<std::optional<std::string>> Store::Get(std::string_view key, TimePoint deadline) {
  const std::string name(key);
  RONDO_ASSIGN(auto values, GetMany(std::span(&name, 1), deadline));
  return std::move(values.front());
}

Result<std::string> Store::WaitFor(std::string_view key, TimePoint deadline) {
  const std::string name(key);
  RONDO_ASSIGN(auto values, Wait(std::span(&name, 1), {.deadline = deadline, .cancel_key = {}}));
  return std::move(values.front());
}

Status CheckKey(std::string_view key) {
  if (key.empty()) return Fail(ErrorCode::kInvalidArgument, "a store's key must not be empty");
  if (key.size() > kMaxKeyBytes) {
    return Fail(ErrorCode::kInvalidArgument, "key {} has {} bytes; at most {} are allowed", Quote(key), key.size(),
                kMaxKeyBytes);
  }
  return {};
}

Status CheckKeys(std::span<const std::string> keys) {
  RONDO_TRY(CheckBatch(keys.size()));
  std::size_t bytes = 0;
  for (const std::string& key : keys) {
    RONDO_TRY(CheckKey(key));
    RONDO_TRY(CheckBatchBytes(bytes += key.size(), key));
  }
  return {};
}

Status CheckEntry(std::string_view key, std::string_view value) {
  RONDO_TRY(CheckKey(key));
  if (value.size() > kMaxValueBytes) {
    return Fail(ErrorCode::kInvalidArgument, "the value of key {} has {} bytes; at most {} are allowed", Quote(key),
                value.size(), kMaxValueBytes);
  }
  return {};
}

Status CheckCompareSet(std::string_view key, std::optional<std::string_view> expected, std::string_view desired) {
  RONDO_TRY(CheckEntry(key, desired));
  return CheckEntry(key, expected.value_or(""));
}

Status CheckEntries(std::span<const KeyValue> entries) {
  RONDO_TRY(CheckBatch(entries.size()));
  std::size_t bytes = 0;
  for (const auto& [key, value] : entries) {
    RONDO_TRY(CheckEntry(key, value));
    RONDO_TRY(CheckBatchBytes(bytes += key.size() + value.size(), key));
  }
  return {};
}

Status CheckWait(std::span<const std::string> keys, std::string_view cancel_key) {
  RONDO_TRY(CheckKeys(keys));
  return cancel_key.empty() ? Status() : CheckKey(cancel_key);
}

Result<std::int64_t> AddToCounter(std::string_view key, std::optional<std::string_view> current, std::int64_t delta) {
  std::int64_t value = 0;
  if (current) {
    const char* end = current->data() + current->size();
    const auto [parsed, error] = std::from_chars(current->data(), end, value);
    if (error != std::errc{} || parsed != end) {
      return Fail(ErrorCode::kInvalidArgument, "cannot add to key {}: its value {} is not a decimal integer",
                  Quote(key), Quote(*current));
    }
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(value, delta, &sum)) {
    return Fail(ErrorCode::kInvalidArgument, "adding {} to key {}, which holds {}, overflows 64 bits", delta,
                Quote(key), value);
  }
  return sum;
}

std::string ListKeys(std::span<const std::string> keys) {
  std::string text;
  for (const std::string& key : keys.first(std::min(keys.size(), kListedKeys))) {
    if (!text.empty()) text += ", ";
    text += Quote(key);
  }
  if (keys.size() > kListedKeys) text += fmt::format(" and {} more", keys.size() - kListedKeys);
  return text;
}

Error MissingKeys(std::span<const std::string> missing, std::size_t awaited) {
  return {ErrorCode::kStoreTimeout,
          fmt::format("{} of {} keys did not appear in time: {}", missing.size(), awaited, ListKeys(missing))};
}

Error InStore(const std::string& name, const Error& error) {
  return error.With([&](ErrorDetails& details) {
    details.message = fmt::format("store {}: {}", name, details.message);
    details.address = name;
  });
}

}  // namespace rondo
