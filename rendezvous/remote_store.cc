#include "rendezvous/remote_store.h"

#include <fmt/core.h>

#include <utility>

#include "rendezvous/store_arguments.h"

namespace rondo {

Status RemoteStore::SetMany(std::span<const KeyValue> entries, TimePoint deadline) {
  RONDO_TRY(CheckEntries(entries));
  const std::string_view first = entries.empty() ? std::string_view() : std::string_view(entries.front().key);
  RONDO_TRY(Ask([&](std::uint64_t id) { return store_protocol::EncodeSet(id, entries); }, deadline,
                {.verb = "Set", .first_key = first, .keys = entries.size()}));
  return {};
}

Result<std::vector<std::optional<std::string>>> RemoteStore::GetMany(std::span<const std::string> keys,
                                                                     TimePoint deadline) {
  RONDO_TRY(CheckKeys(keys));
  RONDO_ASSIGN(const std::string payload, Ask([&](std::uint64_t id) { return store_protocol::EncodeGet(id, keys); },
                                              deadline, Asked::For("Get", keys)));
  auto values = store_protocol::DecodeValues(payload);
  if (values && values->size() != keys.size()) {
    values = Fail(ErrorCode::kProtocol, "the store answered with {} values for {} keys", values->size(), keys.size());
  }
  if (!values) return tl::unexpected(InStore(name_, values.error()));
  return values;
}

Result<std::vector<std::string>> RemoteStore::Wait(std::span<const std::string> keys, const WaitOptions& options) {
  RONDO_TRY(CheckWait(keys, options.cancel_key));
  RONDO_ASSIGN(const std::string payload,
               Ask([&](std::uint64_t id) { return store_protocol::EncodeWait(id, keys, options.cancel_key); },
                   options.deadline, Asked::For("Wait", keys, /*abandon=*/true)));
  auto values = store_protocol::DecodeValues(payload);
  if (!values) return tl::unexpected(InStore(name_, values.error()));
  std::vector<std::string> all;
  all.reserve(values->size());
  for (auto& value : *values) {
    if (value) all.push_back(std::move(*value));
  }
  if (all.size() != keys.size()) {
    return Fail(ErrorCode::kProtocol, "store {}: the store answered with {} values for {} awaited keys", name_,
                all.size(), keys.size());
  }
  return all;
}

Result<std::int64_t> RemoteStore::Add(std::string_view key, std::int64_t delta, TimePoint deadline) {
  RONDO_TRY(CheckKey(key));
  RONDO_ASSIGN(const std::string payload,
               Ask([&](std::uint64_t id) { return store_protocol::EncodeAdd(id, key, delta); }, deadline,
                   {.verb = "Add", .first_key = key, .keys = 1}));
  auto sum = store_protocol::DecodeNumber(payload);
  if (!sum) return tl::unexpected(InStore(name_, sum.error()));
  return sum;
}

Result<CompareSetResult> RemoteStore::CompareSet(std::string_view key, std::optional<std::string_view> expected,
                                                 std::string_view desired, TimePoint deadline) {
  RONDO_TRY(CheckCompareSet(key, expected, desired));
  RONDO_ASSIGN(const std::string payload,
               Ask([&](std::uint64_t id) { return store_protocol::EncodeCompareSet(id, key, expected, desired); },
                   deadline, {.verb = "CompareSet", .first_key = key, .keys = 1}));
  auto result = store_protocol::DecodeCompareSet(payload);
  if (!result) return tl::unexpected(InStore(name_, result.error()));
  return result;
}

Result<std::size_t> RemoteStore::DeleteMany(std::span<const std::string> keys, TimePoint deadline) {
  RONDO_TRY(CheckKeys(keys));
  RONDO_ASSIGN(const std::string payload, Ask([&](std::uint64_t id) { return store_protocol::EncodeDelete(id, keys); },
                                              deadline, Asked::For("Delete", keys)));
  auto count = store_protocol::DecodeNumber(payload);
  if (!count) return tl::unexpected(InStore(name_, count.error()));
  return static_cast<std::size_t>(*count);
}

// ---- answers ----

Result<std::string> RemoteStore::PayloadOf(store_protocol::Reply reply) const {
  if (!reply.error) return std::move(reply.payload);
  // The message is the value of the cancel key, so it is passed on unchanged.
  if (*reply.error == ErrorCode::kAborted) return Fail(ErrorCode::kAborted, "{}", reply.payload);
  return tl::unexpected(InStore(name_, Error(*reply.error, std::move(reply.payload))));
}

Error RemoteStore::Unanswered(const Asked& asked) const {
  ErrorDetails details;
  details.code = ErrorCode::kStoreTimeout;
  details.address = name_;
  details.message = fmt::format("store {} did not answer {} of {} in time", name_, asked.verb,
                                asked.keys == 1 ? fmt::format("key '{}'", asked.first_key)
                                                : fmt::format("{} keys ('{}' ...)", asked.keys, asked.first_key));
  return Error(std::move(details));
}

Error RemoteStore::Lost(const std::string& why) const {
  ErrorDetails details;
  details.code = ErrorCode::kStoreLost;
  details.address = name_;
  details.message = fmt::format("the connection to store {} is lost: {}", name_, why);
  return Error(std::move(details));
}

}  // namespace rondo
