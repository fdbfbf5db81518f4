// What every store checks before it does anything, so that all refuse the same with the same words.
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

// kInvalidArgument: a key of 0 or more than kMaxKeyBytes bytes, a value of more than kMaxValueBytes, a batch of more
// than kMaxBatch keys or kMaxBatchBytes. The message names the key.
Status CheckKey(std::string_view key);
Status CheckKeys(std::span<const std::string> keys);
Status CheckEntry(std::string_view key, std::string_view value);
Status CheckEntries(std::span<const KeyValue> entries);
// Like CheckKeys, and that the cancel key is empty or a legal key.
Status CheckWait(std::span<const std::string> keys, std::string_view cancel_key);

// The text of a counter after Add: `current` (absent counts as 0) plus `delta`. kInvalidArgument names the key where
// the value is no decimal integer of 64 bits, or the sum is none.
Result<std::int64_t> AddToCounter(std::string_view key, std::optional<std::string_view> current, std::int64_t delta);

// "'a', 'b' and 5 more", for messages. Control bytes are shown as '?', long keys are cut.
std::string ListKeys(std::span<const std::string> keys);

// The error of a Wait that met its deadline: "2 of 3 keys did not appear in time: 'a', 'b'".
Error MissingKeys(std::span<const std::string> missing, std::size_t awaited);

// The error with "store NAME: " in front, and NAME as its address.
Error InStore(const std::string& name, const Error& error);

}  // namespace rondo
