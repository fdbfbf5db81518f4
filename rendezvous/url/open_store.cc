#include "rendezvous/url/open_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "rendezvous/launchers/find_launch.h"
#include "rendezvous/tcp_store_server.h"
#include "rendezvous/url/open_launch.h"
#include "rendezvous/url/opening.h"

namespace rondo {
namespace {

// The server listens on every interface, because the host's name may resolve to another address here than on other
// hosts. Debian, for example, maps a host's own name to a loopback address. If the host is "localhost" or a numeric
// loopback address, the server listens only on that address.
Result<OpenedStore> Serve(const HostPort& address, const OpenStoreOptions& options, const SocketAddress& first) {
  const bool only_loopback =
      first.ip.IsLoopback() &&
      (address.host == "localhost" || address.host.find_first_not_of("0123456789.") == std::string::npos ||
       address.host.find(':') != std::string::npos);
  const std::string host = only_loopback ? address.host : "";
  RONDO_ASSIGN(std::shared_ptr<TcpStoreServer> server, StartStoreServer(host, address.port, options));
  const HostPort own{.host = host, .port = server->port()};
  return ConnectToStore(own, options, std::move(server));
}

Result<OpenedStore> OpenTcp(const InitMethod& method, const OpenStoreOptions& options) {
  const bool external = options.external_store || method.external_store;
  if (external || (options.rank && *options.rank != 0)) {
    auto connected = ConnectToStore(method.address, options, nullptr);
    const bool would_serve = external && options.rank == 0;
    if (connected || !would_serve || connected.error().code() != ErrorCode::kUnreachable) return connected;
    // A likely reason: the program chose this URL itself, but the launcher set RONDO_EXTERNAL_STORE, which is meant for
    // the launcher's own store.
    return Fail(connected.error().With([](ErrorDetails& details) {
      details.message +=
          "; no rank serves a store, because RONDO_EXTERNAL_STORE=1 or the option external_store is set (rondo run "
          "sets this variable, because it serves the store of env:// itself)";
    }));
  }
  SteadyClock steady;
  const Clock& clock = options.clock != nullptr ? *options.clock : steady;
  RONDO_ASSIGN(const auto addresses, Resolve(method.address, ResolveFor::kListen, clock, options.deadline));
  if (options.rank) return Serve(method.address, options, addresses.front());

  if (std::any_of(addresses.begin(), addresses.end(), IsLocal)) {
    auto served = Serve(method.address, options, addresses.front());
    if (served || served.error().code() != ErrorCode::kAddressInUse) return served;
  }
  return ConnectToStore(method.address, options, nullptr);
}

}  // namespace

Result<std::shared_ptr<Exchange>> OpenExchange(const InitMethod& method, std::shared_ptr<const Clock> clock,
                                               TimePoint deadline) {
  using Way = Launched::Way;
  const bool by_exchange =
      method.kind == InitMethod::Kind::kLaunch && method.launch->way != Way::kTcp && method.launch->way != Way::kFile;
  if (!by_exchange) return nullptr;
  RONDO_ASSIGN(std::shared_ptr<Exchange> exchange, OpenExchange(*method.launch, std::move(clock), deadline));
  return exchange;
}

void OpenedStore::TakeNoMore() {
  if (server_ != nullptr) server_->TakeNoMore();
}

Status OpenedStore::Leave(TimePoint deadline) {
  store_.reset();
  const auto exchange = std::exchange(exchange_, nullptr);  // destroyed at the end of this call
  const auto server = std::exchange(server_, nullptr);
  if (server == nullptr || server->WaitUntilNoClients(deadline)) return {};
  return Fail(ErrorCode::kStoreTimeout, "{} processes still use store {}, which ends now", server->stats().clients,
              server->Describe());
}

Result<OpenedStore> OpenStore(const InitMethod& method, const OpenStoreOptions& options) {
  switch (method.kind) {
    case InitMethod::Kind::kTcp: return OpenTcp(method, options);
    case InitMethod::Kind::kFile: return OpenFileStore(method.path, /*refuse_leftover=*/false, options);
    case InitMethod::Kind::kLaunch: break;
  }
  return OpenLaunch(*method.launch, options);
}

}  // namespace rondo
