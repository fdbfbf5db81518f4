// Command-line options whose errors name the flag and what was expected. This is a thin layer over CLI11. With it, the
// same kind of value has the same syntax in every subcommand.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/net/ports.h"
#include "base/result.h"
#include "base/tls.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace rondo {

// Adds an option that takes a whole number within [low, high].
CLI::Option* AddNumber(CLI::App& app, const std::string& names, std::function<void(std::int64_t)> take,
                       std::int64_t low, std::int64_t high, const std::string& help);
// Adds an option that takes a size in bytes: 64, 4K, 1.5M, 2G.
CLI::Option* AddSize(CLI::App& app, const std::string& names, std::function<void(std::uint64_t)> take,
                     const std::string& help);
// Adds an option that takes seconds: more than zero, at most a million, with an optional fraction.
CLI::Option* AddSeconds(CLI::App& app, const std::string& names, std::function<void(Duration)> take,
                        const std::string& help);
// Adds an option that takes one of `choices`.
CLI::Option* AddChoice(CLI::App& app, const std::string& names, std::function<void(const std::string&)> take,
                       const std::vector<std::string>& choices, const std::string& help);
// Adds an option that takes a text. `take` parses it and returns "" or the error: "expected ...".
CLI::Option* AddText(CLI::App& app, const std::string& names, std::function<std::string(const std::string&)> take,
                     const std::string& type_name, const std::string& help);

// Adds --tls off|psk|certificates.
CLI::Option* AddTls(CLI::App& app, std::optional<TlsMode>& take);

// Adds --ports FIRST-LAST.
CLI::Option* AddPorts(CLI::App& app, std::optional<PortRange>& take);

// Lists the names of values that have a Name(), for help and errors: "ring, tree".
template <typename Values>
std::string NamesOf(const Values& values) {
  std::string names;
  for (const auto value : values) names.append(names.empty() ? "" : ", ").append(Name(value));
  return names;
}

// The flag of the current subcommand that is most similar to a mistyped one, with its dashes; "" if none is similar.
std::string NearestFlag(const CLI::App& app, const std::string& mistyped);

}  // namespace rondo
