#include "tools/common/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/seconds.h"
#include "tools/common/sizes.h"

namespace rondo {
namespace {

// The number of insertions, deletions and substitutions that turn one text into the other (Levenshtein).
std::size_t EditDistance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t substituted = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

CLI::Option* AddText(CLI::App& app, const std::string& names, std::function<std::string(const std::string&)> take,
                     const std::string& type_name, const std::string& help) {
  // The validator stores the value, because CLI11 puts the flag's name in front of a validator's error.
  CLI::Option* option = app.add_option_function<std::string>(
      names, [](const std::string&) {}, help);
  option->type_name(type_name)->check(
      CLI::Validator([take = std::move(take)](std::string& text) { return take(text); }, std::string(), std::string()));
  return option;
}

CLI::Option* AddNumber(CLI::App& app, const std::string& names, std::function<void(std::int64_t)> take,
                       std::int64_t low, std::int64_t high, const std::string& help) {
  const auto parse = [take = std::move(take), low, high](const std::string& text) -> std::string {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
      return high == INT64_MAX ? fmt::format("expected a whole number from {}, got '{}'", low, text)
                               : fmt::format("expected a whole number from {} to {}, got '{}'", low, high, text);
    }
    take(value);
    return "";
  };
  return AddText(app, names, parse, "N", help);
}

CLI::Option* AddSize(CLI::App& app, const std::string& names, std::function<void(std::uint64_t)> take,
                     const std::string& help) {
  const auto parse = [take = std::move(take)](const std::string& text) -> std::string {
    const Result<std::uint64_t> size = ParseSize(text);
    if (!size) return size.error().message();
    take(*size);
    return "";
  };
  return AddText(app, names, parse, "BYTES", help);
}

CLI::Option* AddSeconds(CLI::App& app, const std::string& names, std::function<void(Duration)> take,
                        const std::string& help) {
  const auto parse = [take = std::move(take)](const std::string& text) -> std::string {
    const Result<Duration> seconds = ParseSeconds(text);
    if (!seconds) return seconds.error().message();
    take(*seconds);
    return "";
  };
  return AddText(app, names, parse, "SECONDS", help);
}

CLI::Option* AddChoice(CLI::App& app, const std::string& names, std::function<void(const std::string&)> take,
                       const std::vector<std::string>& choices, const std::string& help) {
  const auto parse = [take = std::move(take), choices](const std::string& text) -> std::string {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      return fmt::format("expected one of {}, got '{}'", fmt::join(choices, ", "), text);
    }
    take(text);
    return "";
  };
  return AddText(app, names, parse, "NAME", fmt::format("{}: {}", help, fmt::join(choices, ", ")));
}

CLI::Option* AddTls(CLI::App& app, std::optional<TlsMode>& take) {
  return AddChoice(
      app, "--tls", [&take](const std::string& name) { take = *ParseTlsMode("--tls", name); },
      {"off", "psk", "certificates"},
      "Encrypt TCP connections between ranks and to the store with TLS 1.3 (default: variable RONDO_TLS, otherwise "
      "off). psk: with the pre-shared key RONDO_TLS_PSK; certificates: with the files that RONDO_TLS_CA, "
      "RONDO_TLS_CERTIFICATE and RONDO_TLS_KEY name");
}

CLI::Option* AddPorts(CLI::App& app, std::optional<PortRange>& take) {
  return AddText(
      app, "--ports",
      [&take](const std::string& text) -> std::string {
        const auto range = ParsePortRange(text);
        if (!range) return range.error().message();
        take = *range;
        return "";
      },
      "FIRST-LAST",
      "TCP ports to listen on, if a firewall lets only these in (default: variable RONDO_PORTS, otherwise ports that "
      "the system chooses)");
}

std::string NearestFlag(const CLI::App& app, const std::string& mistyped) {
  const std::string word = mistyped.substr(0, mistyped.find('='));
  std::string nearest;
  std::size_t nearest_distance = std::max<std::size_t>(2, word.size() / 3);
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) {
      const std::size_t distance = EditDistance(word, "--" + name);
      if (distance <= nearest_distance) {
        nearest = "--" + name;
        nearest_distance = distance;
      }
    }
  }
  return nearest;
}

}  // namespace rondo
