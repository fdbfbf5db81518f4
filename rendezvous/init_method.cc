#include "rendezvous/init_method.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "rendezvous/file_store.h"
#include "rendezvous/membership.h"
#include "rendezvous/tcp_store_client.h"
#include "rendezvous/tcp_store_server.h"

namespace rondo {
namespace {

constexpr std::string_view kWanted = "tcp://HOST:PORT, file:///PATH or env://";

// A number from `low` to `high`; `what` is where it came from ("variable RANK", "rank in 'tcp://...'").
Result<int> ParseNumber(std::string_view what, std::string_view text, int low, int high) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size() || number < low || number > high) {
    return Fail(ErrorCode::kInvalidArgument, "{} is '{}'; a number from {} to {} is wanted", what, text, low, high);
  }
  return number;
}

// The variable with RONDO_ in front, else the plain one; an empty one counts as absent. Gives its name too.
struct Variable {
  std::string name;
  std::string value;
};
std::optional<Variable> LookUp(const Environment& environment, const std::string& name) {
  for (const std::string& candidate : {"RONDO_" + name, name}) {
    auto value = environment(candidate);
    if (value && !value->empty()) return Variable{candidate, std::move(*value)};
  }
  return std::nullopt;
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
      return Fail(ErrorCode::kInvalidArgument, "'{}' is no parameter of '{}'; rank and world_size are", name, url);
    }
  }
  return {};
}

Result<InitMethod> FromEnvironment(const Environment& environment) {
  if (!environment) {
    return Fail(ErrorCode::kInvalidArgument, "env:// was given where no environment can be read");
  }
  InitMethod method;
  if (const auto url = environment("RONDO_RENDEZVOUS"); url && !url->empty()) {
    if (url->starts_with("env:")) {
      return Fail(ErrorCode::kInvalidArgument, "variable RONDO_RENDEZVOUS is '{}'; tcp:// or file:// is wanted", *url);
    }
    RONDO_ASSIGN(method, ParseInitMethod(*url));
  } else {
    const auto address = LookUp(environment, "MASTER_ADDR");
    const auto port = LookUp(environment, "MASTER_PORT");
    if (!address || !port) {
      return Fail(ErrorCode::kInvalidArgument,
                  "env:// needs variable {}, or RONDO_RENDEZVOUS; rondo run and torchrun set them",
                  address ? "MASTER_PORT"
                  : port  ? "MASTER_ADDR"
                          : "MASTER_ADDR and MASTER_PORT");
    }
    method.address.host = address->value;
    if (method.address.host.starts_with('[') && method.address.host.ends_with(']')) {
      method.address.host = method.address.host.substr(1, method.address.host.size() - 2);
    }
    RONDO_ASSIGN(const int number, ParseNumber("variable " + port->name, port->value, 0, 65535));
    method.address.port = static_cast<std::uint16_t>(number);
  }
  if (!method.rank) {
    if (const auto rank = LookUp(environment, "RANK")) {
      RONDO_ASSIGN(method.rank, ParseNumber("variable " + rank->name, rank->value, 0, kMaxWorldSize - 1));
    }
  }
  if (!method.world_size) {
    if (const auto world_size = LookUp(environment, "WORLD_SIZE")) {
      RONDO_ASSIGN(method.world_size, ParseNumber("variable " + world_size->name, world_size->value, 1, kMaxWorldSize));
    }
  }
  return method;
}

TcpStoreClient::Options ClientOptions(const HostPort& address, const OpenStoreOptions& options) {
  TcpStoreClient::Options client;
  client.address = address;
  client.job = options.job;
  client.deadline = options.deadline;
  client.clock = options.clock;
  client.logger = options.logger;
  return client;
}

Result<OpenedStore> ConnectTo(const HostPort& address, const OpenStoreOptions& options,
                              std::shared_ptr<TcpStoreServer> server) {
  RONDO_ASSIGN(std::shared_ptr<Store> store, TcpStoreClient::Connect(ClientOptions(address, options)));
  return OpenedStore(std::move(store), std::move(server));
}

// The server binds every interface, since the host's name may mean another address here than to the others (Debian
// gives a host's own name a loopback address). A loopback address that was asked for by number or as localhost stays
// one.
Result<OpenedStore> Serve(const HostPort& address, const OpenStoreOptions& options, const SocketAddress& first) {
  const bool only_loopback = IsLoopback(first) && (address.host == "localhost" ||
                                                   address.host.find_first_not_of("0123456789.") == std::string::npos ||
                                                   address.host.find(':') != std::string::npos);
  TcpStoreServer::Options server_options;
  server_options.host = only_loopback ? address.host : "";
  server_options.port = address.port;
  server_options.job = options.job;
  server_options.deadline = options.deadline;
  server_options.logger = options.logger;
  server_options.clock = options.clock;
  RONDO_ASSIGN(std::shared_ptr<TcpStoreServer> server, TcpStoreServer::Start(server_options));
  const HostPort own{.host = only_loopback ? address.host : "", .port = server->port()};
  return ConnectTo(own, options, std::move(server));
}

Result<OpenedStore> OpenTcp(const InitMethod& method, const OpenStoreOptions& options) {
  const bool external = options.external_store || method.external_store;
  if (external || (options.rank && *options.rank != 0)) return ConnectTo(method.address, options, nullptr);
  SteadyClock steady;
  const Clock& clock = options.clock != nullptr ? *options.clock : steady;
  RONDO_ASSIGN(const auto addresses, Resolve(method.address, ResolveFor::kListen, clock, options.deadline));
  if (options.rank) return Serve(method.address, options, addresses.front());

  if (std::any_of(addresses.begin(), addresses.end(), IsLocal)) {
    auto served = Serve(method.address, options, addresses.front());
    if (served || served.error().code() != ErrorCode::kAddressInUse) return served;
  }
  return ConnectTo(method.address, options, nullptr);
}

Result<OpenedStore> OpenFile(const InitMethod& method, const OpenStoreOptions& options) {
  FileStore::Options file;
  file.path = method.path;
  file.job = options.job;
  file.generation = options.generation;
  file.who = options.who;
  file.deadline = options.deadline;
  file.clock = options.clock;
  file.logger = options.logger;
  RONDO_ASSIGN(std::shared_ptr<Store> store, FileStore::Open(std::move(file)));
  return OpenedStore(std::move(store), nullptr);
}

}  // namespace

std::string InitMethod::ToString() const {
  return kind == Kind::kTcp ? "tcp://" + address.ToString() : "file://" + path;
}

Result<InitMethod> ParseInitMethod(std::string_view url, const Environment& environment) {
  const std::size_t colon = url.find("://");
  if (colon == std::string_view::npos) {
    return Fail(ErrorCode::kInvalidArgument, "rendezvous '{}' is no URL; {} is wanted", url, kWanted);
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
      return Fail(ErrorCode::kInvalidArgument,
                  "rendezvous '{}' names host or relative path '{}'; an absolute path (file:///tmp/x) is wanted", url,
                  rest);
    }
    method.kind = InitMethod::Kind::kFile;
    method.path = rest;
  } else if (scheme == "env") {
    if (!rest.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "rendezvous '{}': '{}' after env:// means nothing", url, rest);
    }
    const InitMethod from_url = method;
    RONDO_ASSIGN(method, FromEnvironment(environment));
    if (from_url.rank) method.rank = from_url.rank;
    if (from_url.world_size) method.world_size = from_url.world_size;
  } else {
    return Fail(ErrorCode::kInvalidArgument, "rendezvous '{}' has scheme '{}'; {} is wanted", url, scheme, kWanted);
  }
  if (environment) {
    if (const auto external = environment("RONDO_EXTERNAL_STORE"); external && !external->empty()) {
      RONDO_ASSIGN(const int flag, ParseNumber("variable RONDO_EXTERNAL_STORE", *external, 0, 1));
      method.external_store = flag == 1;
    }
  }
  if (method.rank && method.world_size && *method.rank >= *method.world_size) {
    return Fail(ErrorCode::kInvalidArgument, "rank {} is outside 0..{}, which rendezvous '{}' gives with it",
                *method.rank, *method.world_size - 1, url);
  }
  return method;
}

Status OpenedStore::Leave(TimePoint deadline) {
  store_.reset();
  const auto server = std::exchange(server_, nullptr);
  if (server == nullptr || server->WaitUntilNoClients(deadline)) return {};
  return Fail(ErrorCode::kStoreTimeout, "{} processes still use store {}, which ends now", server->stats().clients,
              server->Describe());
}

Result<OpenedStore> OpenStore(const InitMethod& method, const OpenStoreOptions& options) {
  return method.kind == InitMethod::Kind::kTcp ? OpenTcp(method, options) : OpenFile(method, options);
}

}  // namespace rondo
