// A JSON text as values, for the little that is read from one here. The parser is nlohmann-json's; its own values take
// memory in their destructor, which must not fail.
//
// Thread rule: values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace rondo {

class JsonTree {
 public:
  using Items = std::vector<JsonTree>;
  using Members = std::vector<std::pair<std::string, JsonTree>>;  // as they stand in the text
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Items, Members>;

  JsonTree() = default;
  explicit JsonTree(Value value) : value_(std::move(value)) {}

  // kInvalidArgument says where it is no JSON, or that lists and objects are nested deeper than `max_depth`. Numbers
  // beyond 64 bits become doubles.
  static Result<JsonTree> Parse(std::string_view text, int max_depth);

  // kInvalidArgument: there is none of that name, or this is no object.
  Result<const JsonTree*> At(std::string_view name) const;
  // Null: there is none.
  const JsonTree* Find(std::string_view name) const;

  // kInvalidArgument: it is something else; `field` is what it is called.
  Result<std::string> String(std::string_view field) const;
  Result<bool> Boolean(std::string_view field) const;
  Result<double> Number(std::string_view field) const;             // whole ones, too
  Result<std::int64_t> WholeNumber(std::string_view field) const;  // no fraction is cut off
  Result<std::uint64_t> SizeNumber(std::string_view field) const;  // a whole one from 0 on
  Result<const Items*> List(std::string_view field) const;
  Result<const Members*> Object(std::string_view field) const;

  // For messages: a value as JSON; of lists and objects only that they are such.
  std::string Shown() const;

 private:
  Value value_;
};

// `text` as a JSON string with its quotes. Bytes that are not UTF-8 become the replacement character.
std::string JsonQuoted(const std::string& text);

}  // namespace rondo
