// The checks that every store makes before a call, so that all stores refuse wrong arguments with the same errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "rendezvous/store.h"

namespace rondo {

// kInvalidArgument: a key is empty or longer than kMaxKeyBytes, a value is longer than kMaxValueBytes, or a batch has
// more than kMaxBatch keys or kMaxBatchBytes bytes. The message names the key.
Status CheckKey(std::string_view key);
Status CheckKeys(std::span<const std::string> keys);
Status CheckEntry(std::string_view key, std::string_view value);
Status CheckCompareSet(std::string_view key, std::optional<std::string_view> expected, std::string_view desired);
Status CheckEntries(std::span<const KeyValue> entries);
// Checks like CheckKeys, and also checks that the cancel key is empty or allowed.
Status CheckWait(std::span<const std::string> keys, std::string_view cancel_key);

// Returns a counter's value after Add: the number in `current` (0 if absent) plus `delta`. kInvalidArgument names the
// key if its value is not a decimal integer of 64 bits, or if the sum exceeds 64 bits.
Result<std::int64_t> AddToCounter(std::string_view key, std::optional<std::string_view> current, std::int64_t delta);

// Lists keys for messages: "'a', 'b' and 5 more". Shows control bytes as '?' and cuts long keys.
std::string ListKeys(std::span<const std::string> keys);

// The error of a Wait whose deadline passed: "2 of 3 keys did not appear in time: 'a', 'b'".
Error MissingKeys(std::span<const std::string> missing, std::size_t awaited);

// Gives the error with "store NAME: " before its message and NAME as its address.
Error InStore(const std::string& name, const Error& error);

}  // namespace rondo
