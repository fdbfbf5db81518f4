// Helpers for reading JSON that subcommands, or other ranks of the job, have written.
//
// Every function throws Json::exception if the text is not JSON, a key is missing, or a value has another type than
// expected. JsonReason extracts the reason from the exception.
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rondo {

using Json = nlohmann::ordered_json;

// Parses the text. Also throws if lists and objects are nested more deeply than in any file that Rondo writes.
Json ParseJson(std::string_view text);

// The whole number under `key`. Throws for a fraction; the JSON library itself would drop a fraction or a sign.
std::int64_t WholeNumberAt(const Json& object, const char* key);
std::uint64_t CountAt(const Json& object, const char* key);  // a whole number that is not negative
std::string TextAt(const Json& object, const char* key);
// "" if the value is null or the key is missing.
std::string TextOrNull(const Json& object, const char* key);

// Throws for an error that only the caller can detect.
[[noreturn]] void ThrowUnfit(const std::string& what);

// The reason of the error, without the library's prefix.
std::string JsonReason(const Json::exception& error);

}  // namespace rondo
