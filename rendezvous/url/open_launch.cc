#include "rendezvous/url/open_launch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "rendezvous/launchers/derived_ports.h"
#include "rendezvous/launchers/store_line.h"
#include "rendezvous/url/opening.h"

namespace rondo {
namespace {

constexpr Duration kProbePatience = std::chrono::seconds(2);

// On rank 0 of a launch with an exchange: serves the store and publishes its address, or the reason why there is no
// store.
Result<OpenedStore> ServeAndPublish(const Launched& launch, const std::string& name, const OpenStoreOptions& options) {
  const std::string host = launch.one_host() ? "127.0.0.1" : "";
  const auto server = StartStoreServer(host, 0, options);
  StoreLine line;
  if (server && launch.one_host()) {
    line.addresses = {{host, (*server)->port()}};
  } else if (server) {
    for (const std::string& address : options.hosts) line.addresses.push_back({address, (*server)->port()});
  }
  Status served;
  if (options.failure != nullptr) {
    served = tl::unexpected(*options.failure);
  } else if (!server) {
    served = tl::unexpected(server.error());
  } else if (line.addresses.empty()) {
    served = Fail(ErrorCode::kUnreachable, "this host has no address to which the other ranks of {} could connect",
                  launch.launcher);
  }
  if (!served) line.failure = served.error().ToString();
  const auto shared = options.exchange->Share(name, Encode(line, options.exchange->max_line_bytes()), options.deadline);
  RONDO_TRY(served);
  if (!shared) return tl::unexpected(shared.error());
  return ConnectToStore({.host = host, .port = (*server)->port()}, options, *server);
}

Result<OpenedStore> ReadAndConnect(const std::string& name, const OpenStoreOptions& options) {
  RONDO_ASSIGN(const std::string text, options.exchange->Share(name, std::nullopt, options.deadline));
  RONDO_ASSIGN(const StoreLine line, DecodeStoreLine(text));
  if (!line.failure.empty()) {
    ErrorDetails details;
    details.code = ErrorCode::kStoreLost;
    details.message = "rank 0 could not serve the store or take part in the rendezvous";
    details.culprit = 0;
    details.first_cause = line.failure;
    return Fail(Error(std::move(details)));
  }
  TcpStoreClient::Options client = ClientOptions(line.addresses.front(), options);
  client.others.assign(line.addresses.begin() + 1, line.addresses.end());
  RONDO_ASSIGN(std::shared_ptr<Store> store, TcpStoreClient::Connect(client));
  return OpenedStore(std::move(store), nullptr);
}

Result<OpenedStore> OpenByExchange(const Launched& launch, const OpenStoreOptions& options) {
  RONDO_CHECK(options.exchange != nullptr, "a launch by {} needs its exchange", launch.launcher);
  const std::string name = fmt::format("rondo-{}", options.generation);
  RONDO_ASSIGN(OpenedStore opened,
               launch.rank == 0 ? ServeAndPublish(launch, name, options) : ReadAndConnect(name, options));
  return std::move(opened).Keeping(options.exchange);
}

// A port range in the options has precedence over the ports from the launcher's variables.
std::vector<std::uint16_t> PortsOf(const Launched& launch, const OpenStoreOptions& options) {
  return launch.derives_ports() && options.ports.IsSet() ? DerivedPorts(launch.job, launch.avoided_port, options.ports)
                                                         : launch.ports;
}

TcpStoreClient::Options AnyPort(const Launched& launch, const OpenStoreOptions& options) {
  const std::vector<std::uint16_t> ports = PortsOf(launch, options);
  TcpStoreClient::Options client = ClientOptions({launch.host, ports.front()}, options);
  for (std::size_t i = 1; i < ports.size(); ++i) client.others.push_back({launch.host, ports[i]});
  client.expect_foreign_servers = ports.size() > 1;
  return client;
}

// Whether a store of the same job listens at `address`. This process is the job's only rank 0, so such a store belongs
// to another run.
bool ServesThisJob(const HostPort& address, const OpenStoreOptions& options, const Clock& clock) {
  OpenStoreOptions probe = options;
  probe.deadline = std::min(options.deadline, clock.Now() + kProbePatience);
  return TcpStoreClient::Connect(ClientOptions(address, probe)).has_value();
}

// On rank 0, if all ranks know the ports: serves the store on the first port that is free.
Result<OpenedStore> ServeOnOneOf(const Launched& launch, const OpenStoreOptions& options, const Clock& clock) {
  const std::string host = launch.one_host() ? launch.host : "";
  std::string taken;
  OpenStoreOptions at_once = options;
  at_once.deadline = {};  // does not wait until closed connections free a port, because the next port may be free
  for (const std::uint16_t port : PortsOf(launch, options)) {
    auto server = StartStoreServer(host, port, at_once);
    if (server) return ConnectToStore({.host = host, .port = port}, options, *server);
    if (server.error().code() != ErrorCode::kAddressInUse) return tl::unexpected(server.error());
    if (ServesThisJob({.host = host, .port = port}, options, clock)) {
      return Fail(ErrorCode::kStale,
                  "port {} already has a store of this job, '{}': an earlier run has not ended, or this process is a "
                  "second rank 0; end the other process, or give --rendezvous or set RONDO_RENDEZVOUS",
                  port, options.job);
    }
    taken += fmt::format("{}{}", taken.empty() ? "" : ", ", port);
  }
  return Fail(ErrorCode::kAddressInUse,
              "all ports that job '{}' of {} may use are taken: {}; give --rendezvous or set RONDO_RENDEZVOUS",
              options.job, launch.launcher, taken);
}

}  // namespace

Result<OpenedStore> OpenLaunch(const Launched& launch, const OpenStoreOptions& options) {
  switch (launch.way) {
    case Launched::Way::kPmi1:
    case Launched::Way::kPmi2:
    case Launched::Way::kPmix: return OpenByExchange(launch, options);
    case Launched::Way::kFile:
      return OpenFileStore(fmt::format("{}.{}", launch.file, options.generation), /*refuse_leftover=*/true, options);
    case Launched::Way::kTcp: break;
  }
  SteadyClock steady;
  const Clock& clock = options.clock != nullptr ? *options.clock : steady;
  if (PortsOf(launch, options).empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "the range of ports allows only port {}, but {} reserves that port (MASTER_PORT) for another program; "
                "allow at least one more port",
                launch.avoided_port, launch.launcher);
  }
  if (launch.rank == 0 && !launch.external_store) return ServeOnOneOf(launch, options, clock);
  RONDO_ASSIGN(std::shared_ptr<Store> store, TcpStoreClient::Connect(AnyPort(launch, options)));
  return OpenedStore(std::move(store), nullptr);
}

}  // namespace rondo
