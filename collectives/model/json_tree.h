// A parsed JSON text. nlohmann-json does the parsing; its own value type is not used, because the destructor of
// that type allocates memory, and a destructor must not fail.
//
// Thread rule: plain values, each for one thread at a time.
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
  using Members = std::vector<std::pair<std::string, JsonTree>>;  // members in the order of the text
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Items, Members>;

  JsonTree() = default;
  explicit JsonTree(Value value) : value_(std::move(value)) {}

  // kInvalidArgument: not valid JSON, with the position; or lists and objects are nested deeper than `max_depth`.
  // Numbers beyond 64 bits become doubles.
  static Result<JsonTree> Parse(std::string_view text, int max_depth);

  // kInvalidArgument: there is no such member, or this is not an object.
  Result<const JsonTree*> At(std::string_view name) const;
  // Null: there is no such member.
  const JsonTree* Find(std::string_view name) const;

  // kInvalidArgument: the value has another type; the error calls it `field`.
  Result<std::string> String(std::string_view field) const;
  Result<bool> Boolean(std::string_view field) const;
  Result<double> Number(std::string_view field) const;             // integers, too
  Result<std::int64_t> WholeNumber(std::string_view field) const;  // an error if the number has a fraction
  // an error unless the value is an integer of 0 or more
  Result<std::uint64_t> SizeNumber(std::string_view field) const;
  Result<const Items*> List(std::string_view field) const;
  Result<const Members*> Object(std::string_view field) const;

  // This value as JSON, for messages. For a list or an object, the text says only which of the two it is.
  std::string Shown() const;

 private:
  Value value_;
};

// `text` as a JSON string with its quotes. Invalid UTF-8 becomes the replacement character.
std::string JsonQuoted(const std::string& text);

}  // namespace rondo
