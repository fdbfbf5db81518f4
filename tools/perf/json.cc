#include "tools/perf/json.h"

#include <fmt/core.h>

#include <string>

namespace rondo {
namespace {

// An object that grows copies its values, which takes stack for every level that a baseline does not have.
bool RefuseDepth(int depth, Json::parse_event_t, const Json&) {
  constexpr int kMaxDepth = 16;
  if (depth > kMaxDepth) throw Json::other_error::create(500, "lists in lists, too deep", nullptr);
  return true;
}

}  // namespace

double Rounded(double value) { return std::stod(fmt::format("{:.6g}", value)); }

Json HostToJson(const HostFacts& host) {
  return Json{{"name", host.name}, {"cpu", host.cpu}, {"kernel", host.kernel}, {"cores", host.cores}};
}

Json ParseShallow(std::string_view text) { return Json::parse(text, RefuseDepth); }

std::int64_t WholeNumber(const Json& object, const char* key) {
  const Json& value = object.at(key);
  if (value.is_number_unsigned() ? value.get<std::uint64_t>() <= INT64_MAX : value.is_number_integer()) return value;
  throw Json::type_error::create(302, fmt::format("{} must be a whole number", key), &object);
}

}  // namespace rondo
