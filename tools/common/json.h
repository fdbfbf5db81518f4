// How subcommands read JSON that they, or ranks of the same job, have written.
//
// Every reader throws Json::exception, which says what is wrong: the text is no JSON, a key is missing, or a value is
// of another type than expected. JsonReason gives its words for a message.
//
// Thread rule: functions are pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rondo {

using Json = nlohmann::ordered_json;

// The text as a value; also throws where lists and objects are nested deeper than in any file of Rondo's.
Json ParseJson(std::string_view text);

// The value under `key`. The library itself would cut off a fraction or a sign.
std::int64_t WholeNumberAt(const Json& object, const char* key);
std::uint64_t CountAt(const Json& object, const char* key);  // a whole number from 0 on
std::string TextAt(const Json& object, const char* key);
// "": null, or no such key.
std::string TextOrNull(const Json& object, const char* key);

// For what only the caller can know to be wrong.
[[noreturn]] void ThrowUnfit(const std::string& what);

// What is wrong, without the name that the library puts in front.
std::string JsonReason(const Json::exception& error);

}  // namespace rondo
