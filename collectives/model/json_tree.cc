#include "collectives/model/json_tree.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rondo {
namespace {

using Json = nlohmann::ordered_json;

// Builds the tree from the parser's events. The lists and objects that are still open form a path: each is the last
// element of the one before it.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(int max_depth) : max_depth_(static_cast<std::size_t>(max_depth)) {}

  bool null() override { return Add(JsonTree::Value(nullptr)); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // called only for formats other than JSON
  bool start_object(std::size_t) override { return Open(JsonTree::Members()); }
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(JsonTree::Items()); }
  bool end_array() override { return Close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    why_ = error.what();
    return false;
  }

  const std::string& why() const { return why_; }
  JsonTree Take() { return JsonTree(std::move(whole_)); }

 private:
  struct Level {
    std::string key;  // the name of this value in its object
    JsonTree::Value value;
  };

  bool Add(JsonTree::Value value) {
    if (open_.empty()) {
      whole_ = std::move(value);
    } else if (auto* const items = std::get_if<JsonTree::Items>(&open_.back().value)) {
      items->emplace_back(std::move(value));
    } else {
      std::get<JsonTree::Members>(open_.back().value).emplace_back(std::move(key_), JsonTree(std::move(value)));
    }
    return true;
  }

  bool Open(JsonTree::Value value) {
    if (open_.size() == max_depth_) {
      why_ = "lists are nested too deeply";
      return false;
    }
    open_.push_back({std::move(key_), std::move(value)});
    return true;
  }

  bool Close() {
    Level done = std::move(open_.back());
    open_.pop_back();
    key_ = std::move(done.key);
    return Add(std::move(done.value));
  }

  const std::size_t max_depth_;
  std::vector<Level> open_;
  std::string key_;
  JsonTree::Value whole_;
  std::string why_;
};

}  // namespace

Result<JsonTree> JsonTree::Parse(std::string_view text, int max_depth) {
  Builder builder(max_depth);
  if (!Json::sax_parse(text, &builder)) return Fail(ErrorCode::kInvalidArgument, "{}", builder.why());
  return builder.Take();
}

const JsonTree* JsonTree::Find(std::string_view name) const {
  const auto* const members = std::get_if<Members>(&value_);
  if (members == nullptr) return nullptr;
  const auto found = std::find_if(members->begin(), members->end(), [&](const auto& one) { return one.first == name; });
  return found == members->end() ? nullptr : &found->second;
}

Result<const JsonTree*> JsonTree::At(std::string_view name) const {
  if (const JsonTree* const found = Find(name)) return found;
  return Fail(ErrorCode::kInvalidArgument, "there is no '{}'", name);
}

Result<std::string> JsonTree::String(std::string_view field) const {
  if (const auto* const text = std::get_if<std::string>(&value_)) return *text;
  return Fail(ErrorCode::kInvalidArgument, "{} must be a string, not {}", field, Shown());
}

Result<bool> JsonTree::Boolean(std::string_view field) const {
  if (const bool* const value = std::get_if<bool>(&value_)) return *value;
  return Fail(ErrorCode::kInvalidArgument, "{} must be true or false, not {}", field, Shown());
}

Result<double> JsonTree::Number(std::string_view field) const {
  if (const auto* const value = std::get_if<double>(&value_)) return *value;
  if (const auto* const value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* const value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  return Fail(ErrorCode::kInvalidArgument, "{} must be a number, not {}", field, Shown());
}

Result<std::int64_t> JsonTree::WholeNumber(std::string_view field) const {
  if (const auto* const value = std::get_if<std::int64_t>(&value_)) return *value;
  if (const auto* const value = std::get_if<std::uint64_t>(&value_); value != nullptr && *value <= INT64_MAX)
    return static_cast<std::int64_t>(*value);
  return Fail(ErrorCode::kInvalidArgument, "{} must be a whole number, not {}", field, Shown());
}

Result<std::uint64_t> JsonTree::SizeNumber(std::string_view field) const {
  if (const auto* const value = std::get_if<std::uint64_t>(&value_)) return *value;
  return Fail(ErrorCode::kInvalidArgument, "{} must be whole numbers, not {}", field, Shown());
}

Result<const JsonTree::Items*> JsonTree::List(std::string_view field) const {
  if (const auto* const items = std::get_if<Items>(&value_)) return items;
  return Fail(ErrorCode::kInvalidArgument, "{} must be a list, not {}", field, Shown());
}

Result<const JsonTree::Members*> JsonTree::Object(std::string_view field) const {
  if (const auto* const members = std::get_if<Members>(&value_)) return members;
  return Fail(ErrorCode::kInvalidArgument, "{} must be an object, not {}", field, Shown());
}

std::string JsonTree::Shown() const {
  struct Words {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return std::to_string(value); }
    std::string operator()(std::uint64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return Json(value).dump(); }
    std::string operator()(const std::string& value) const { return JsonQuoted(value); }
    std::string operator()(const Items&) const { return "array"; }
    std::string operator()(const Members&) const { return "object"; }
  };
  return std::visit(Words(), value_);
}

std::string JsonQuoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rondo
