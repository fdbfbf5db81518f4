#include "tools/common/json.h"

#include <fmt/core.h>

namespace rondo {
namespace {

// Limits the nesting, because the library copies nested values recursively.
bool RefuseDepth(int depth, Json::parse_event_t, const Json&) {
  constexpr int kMaxDepth = 16;
  if (depth > kMaxDepth) ThrowUnfit("lists are nested too deeply");
  return true;
}

std::string Shown(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

Json ParseJson(std::string_view text) { return Json::parse(text, RefuseDepth); }

std::int64_t WholeNumberAt(const Json& object, const char* key) {
  const Json& value = object.at(key);
  if (value.is_number_unsigned() ? value.get<std::uint64_t>() <= INT64_MAX : value.is_number_integer()) return value;
  ThrowUnfit(fmt::format("{} must be a whole number, not {}", key, Shown(value)));
}

std::uint64_t CountAt(const Json& object, const char* key) {
  const Json& value = object.at(key);
  if (value.is_number_unsigned()) return value;
  ThrowUnfit(fmt::format("{} must be a whole number from 0 on, not {}", key, Shown(value)));
}

std::string TextAt(const Json& object, const char* key) {
  const Json& value = object.at(key);
  if (value.is_string()) return value.get<std::string>();
  ThrowUnfit(fmt::format("{} must be a text, not {}", key, Shown(value)));
}

std::string TextOrNull(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? "" : TextAt(object, key);
}

void ThrowUnfit(const std::string& what) { throw Json::other_error::create(501, what, nullptr); }

std::string JsonReason(const Json::exception& error) {
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

}  // namespace rondo
