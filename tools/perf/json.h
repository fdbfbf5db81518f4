// What the JSON texts of `rondo perf` have in common, of collectives and of pairs of ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tools/perf/report.h"

namespace rondo {

using Json = nlohmann::ordered_json;

// Six significant digits: what a measurement is good for.
double Rounded(double value);

Json HostToJson(const HostFacts& host);

// Throws Json::exception, also of lists in lists that no file of ours has.
Json ParseShallow(std::string_view text);

// The whole number under that key; throws Json::exception where it is none, which the library would make it.
std::int64_t WholeNumber(const Json& object, const char* key);

}  // namespace rondo
