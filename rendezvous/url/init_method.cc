#include "rendezvous/url/init_method.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "rendezvous/launchers/find_launch.h"
#include "rendezvous/launchers/system_facts.h"
#include "rendezvous/membership.h"

namespace rondo {
namespace {

constexpr std::string_view kWanted = "tcp://HOST:PORT, file:///PATH or env://";

// A variable that was set by hand, with its name. A variable with the prefix RONDO_ has precedence over the plain
// variable. With `plain_is_theirs`, a launcher set the plain variable, so it does not count as set by hand.
struct Variable {
  std::string name;
  std::string value;
};
std::optional<Variable> ByHand(const Environment& environment, const std::string& name, bool plain_is_theirs) {
  if (auto value = Lookup(environment, "RONDO_" + name)) return Variable{"RONDO_" + name, std::move(*value)};
  if (plain_is_theirs) return std::nullopt;
  if (auto value = Lookup(environment, name)) return Variable{name, std::move(*value)};
  return std::nullopt;
}

// Whether a launcher set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. If so, these do not count as set by hand.
bool SetPlainVariables(const Environment& environment) {
  return IsSet(environment, "TORCHELASTIC_RUN_ID") || IsSet(environment, "RONDO_LAUNCHER");
}

Status ParseQuery(std::string_view url, std::string_view query, InitMethod& method) {
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), field.size() + 1));
    const std::size_t equals = field.find('=');
    const std::string_view name = field.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : field.substr(equals + 1);
    const std::string what = fmt::format("{} in '{}'", name, url);
    if (name == "rank") {
      RONDO_ASSIGN(method.rank, ParseNumber(what, value, 0, kMaxWorldSize - 1));
    } else if (name == "world_size") {
      RONDO_ASSIGN(method.world_size, ParseNumber(what, value, 1, kMaxWorldSize));
    } else {
      return Fail(ErrorCode::kInvalidArgument, "unknown parameter '{}' in '{}'; expected rank or world_size", name,
                  url);
    }
  }
  return {};
}

// MASTER_ADDR and MASTER_PORT, if both were set by hand.
Result<std::optional<HostPort>> MasterByHand(const Environment& environment) {
  const bool theirs = SetPlainVariables(environment);
  const auto address = ByHand(environment, "MASTER_ADDR", theirs);
  const auto port = ByHand(environment, "MASTER_PORT", theirs);
  if (!address || !port) return std::nullopt;
  HostPort master;
  master.host = address->value;
  if (master.host.starts_with('[') && master.host.ends_with(']')) {
    master.host = master.host.substr(1, master.host.size() - 2);
  }
  RONDO_ASSIGN(const int number, ParseNumber("variable " + port->name, port->value, 0, 65535));
  master.port = static_cast<std::uint16_t>(number);
  return master;
}

Error NothingInEnvironment(const Environment& environment) {
  const bool address = ByHand(environment, "MASTER_ADDR", SetPlainVariables(environment)).has_value();
  const bool port = ByHand(environment, "MASTER_PORT", SetPlainVariables(environment)).has_value();
  const std::string half = address ? "; MASTER_ADDR is set, but MASTER_PORT is not"
                           : port  ? "; MASTER_PORT is set, but MASTER_ADDR is not"
                                   : "";
  return {
      ErrorCode::kInvalidArgument,
      fmt::format(
          "env:// finds no launcher's variables in the environment: give --rendezvous tcp://HOST:PORT or file:///PATH, "
          "set RONDO_RENDEZVOUS, or start this program by a launcher. Variables that are looked for: {}{}",
          WhatWasLookedFor(environment), half)};
}

// Finds the store from the environment. Rank and world size are filled in later.
Result<InitMethod> PlaceFromEnvironment(const Environment& environment) {
  if (!environment) {
    return Fail(ErrorCode::kInvalidArgument,
                "env:// is not allowed here, because the environment is not read; give tcp:// or file://");
  }
  if (const auto url = Lookup(environment, "RONDO_RENDEZVOUS")) {
    if (url->starts_with("env:")) {
      return Fail(ErrorCode::kInvalidArgument, "variable RONDO_RENDEZVOUS is '{}'; expected tcp:// or file://", *url);
    }
    return ParseInitMethod(*url);
  }
  InitMethod method;
  RONDO_ASSIGN(const auto master, MasterByHand(environment));
  if (master) {
    method.address = *master;
    return method;
  }
  RONDO_ASSIGN(method.launch, FindLaunch(environment, ThisSystem()));
  if (!method.launch) return Fail(NothingInEnvironment(environment));
  method.kind = InitMethod::Kind::kLaunch;
  return method;
}

// Fills in rank and world size, if the URL did not give them.
Status FillInRanks(const Environment& environment, bool from_environment, InitMethod& method) {
  const bool theirs = SetPlainVariables(environment) || method.kind == InitMethod::Kind::kLaunch || !from_environment;
  if (!method.rank) {
    if (const auto rank = ByHand(environment, "RANK", theirs)) {
      RONDO_ASSIGN(method.rank, ParseNumber("variable " + rank->name, rank->value, 0, kMaxWorldSize - 1));
    }
  }
  if (!method.world_size) {
    if (const auto world_size = ByHand(environment, "WORLD_SIZE", theirs)) {
      RONDO_ASSIGN(method.world_size, ParseNumber("variable " + world_size->name, world_size->value, 1, kMaxWorldSize));
    }
  }
  if (method.rank && method.world_size) return {};
  if (!method.launch) {
    auto launch = FindLaunch(environment, ThisSystem());
    if (!launch && from_environment) return tl::unexpected(launch.error());
    if (launch) method.launch = std::move(*launch);
  }
  if (!method.launch) return {};
  // The launcher's rank belongs to a world of another size, so it is not used.
  if (method.world_size && *method.world_size != method.launch->world_size) {
    if (method.kind != InitMethod::Kind::kLaunch) method.launch.reset();
    return {};
  }
  if (!method.rank) method.rank = method.launch->rank;
  method.world_size = method.launch->world_size;
  return {};
}

}  // namespace

std::string InitMethod::ToString() const {
  switch (kind) {
    case Kind::kTcp: return "tcp://" + address.ToString();
    case Kind::kFile: return "file://" + path;
    case Kind::kLaunch: return fmt::format("env:// ({})", launch->launcher);
  }
  return "";
}

std::string InitMethod::Describe() const {
  if (kind == Kind::kLaunch) return launch->Describe();
  const std::string who = rank ? fmt::format("rank {} of {}", *rank, world_size ? std::to_string(*world_size) : "?")
                               : "a rank by order of arrival";
  return fmt::format("{}{}; rendezvous at {}", who,
                     launch ? fmt::format(", started by {} ({})", launch->launcher, launch->evidence) : "", ToString());
}

Result<InitMethod> ParseInitMethod(std::string_view url, const Environment& environment) {
  const std::size_t colon = url.find("://");
  if (colon == std::string_view::npos) {
    return Fail(ErrorCode::kInvalidArgument, "rendezvous '{}' is not a URL; expected {}", url, kWanted);
  }
  const std::string_view scheme = url.substr(0, colon);
  std::string_view rest = url.substr(colon + 3);
  const std::size_t question = rest.find('?');
  const std::string_view query = question == std::string_view::npos ? std::string_view() : rest.substr(question + 1);
  rest = rest.substr(0, question);

  InitMethod method;
  RONDO_TRY(ParseQuery(url, query, method));
  if (scheme == "tcp") {
    while (rest.ends_with('/')) rest.remove_suffix(1);
    auto address = ParseHostPort(rest);
    if (!address) {
      return Fail(address.error().With(
          [&](ErrorDetails& details) { details.message = fmt::format("rendezvous '{}': {}", url, details.message); }));
    }
    method.address = std::move(*address);
  } else if (scheme == "file") {
    if (!rest.starts_with('/')) {
      return Fail(
          ErrorCode::kInvalidArgument,
          "rendezvous '{}' contains a host or the relative path '{}'; expected an absolute path (file:///tmp/x)", url,
          rest);
    }
    method.kind = InitMethod::Kind::kFile;
    method.path = rest;
  } else if (scheme == "env") {
    if (!rest.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "rendezvous '{}': '{}' is not allowed after env://", url, rest);
    }
    const InitMethod from_url = method;
    RONDO_ASSIGN(method, PlaceFromEnvironment(environment));
    if (from_url.rank) method.rank = from_url.rank;
    if (from_url.world_size) method.world_size = from_url.world_size;
  } else {
    return Fail(ErrorCode::kInvalidArgument, "rendezvous '{}' has scheme '{}'; expected {}", url, scheme, kWanted);
  }
  if (environment) {
    RONDO_TRY(FillInRanks(environment, scheme == "env", method));
    method.job =
        method.kind == InitMethod::Kind::kLaunch ? method.launch->job : Lookup(environment, "RONDO_JOB").value_or("");
    if (const auto external = Lookup(environment, "RONDO_EXTERNAL_STORE")) {
      RONDO_ASSIGN(const int flag, ParseNumber("variable RONDO_EXTERNAL_STORE", *external, 0, 1));
      method.external_store = flag == 1;
    }
    if (const auto join = Lookup(environment, "RONDO_JOIN")) {
      RONDO_ASSIGN(const int flag, ParseNumber("variable RONDO_JOIN", *join, 0, 1));
      method.join = flag == 1;
    }
  }
  if (method.rank && method.world_size && *method.rank >= *method.world_size) {
    return Fail(ErrorCode::kInvalidArgument, "rank {} is outside 0..{}, the ranks of rendezvous '{}'", *method.rank,
                *method.world_size - 1, url);
  }
  return method;
}

}  // namespace rondo
