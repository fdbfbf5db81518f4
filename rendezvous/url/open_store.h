// Opens the store that a rendezvous URL names. This process connects to the store's server, or serves the store itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/identity.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/net/ports.h"
#include "base/result.h"
#include "rendezvous/launchers/exchange.h"
#include "rendezvous/store.h"
#include "rendezvous/url/init_method.h"

namespace rondo {

class TcpStoreServer;

// Opens the exchange through which the ranks of a PMI or PMIx launch find the store; null if `method` uses none.
// Errors: those of OpenExchange in launchers/exchange.h.
Result<std::shared_ptr<Exchange>> OpenExchange(const InitMethod& method, std::shared_ptr<const Clock> clock,
                                               TimePoint deadline);

struct OpenStoreOptions {
  std::string job;  // at most 256 bytes
  // For stores over TCP: token and TLS credentials, or none. This process accepts only clients and servers that have
  // the same credentials.
  Identity identity = {};
  std::uint64_t generation = 0;
  std::optional<Rank> rank;             // nullopt: ranks are assigned in the order of arrival
  bool external_store = false;          // for tcp; true: another process serves the store, so rank 0 does not
  std::shared_ptr<Exchange> exchange;   // the result of OpenExchange
  std::vector<std::string> hosts = {};  // for an exchange: this host's addresses for the other ranks, best first
  std::string who;                      // describes this process for people: "host a, pid 17"
  // for a store that this process serves, if the port is not given: the ports to choose from; not set: any port
  PortRange ports = {};
  // Set by a process that cannot take part. If other ranks wait to learn the store's address from it, they get this
  // error. May be null.
  const Error* failure = nullptr;
  TimePoint deadline;
  std::shared_ptr<const Clock> clock;  // null: SteadyClock
  Logger* logger = nullptr;            // must outlive the opened store
};

// An open store, and its server if this process serves it.
class OpenedStore {
 public:
  OpenedStore(std::shared_ptr<Store> store, std::shared_ptr<TcpStoreServer> server)
      : store_(std::move(store)), server_(std::move(server)) {}
  // Gives the same store. It keeps `exchange` until Leave or Keep is called.
  OpenedStore Keeping(std::shared_ptr<Exchange> exchange) && {
    exchange_ = std::move(exchange);
    return std::move(*this);
  }

  Store& store() const { return *store_; }
  bool serves() const { return server_ != nullptr; }
  const std::shared_ptr<TcpStoreServer>& server() const { return server_; }

  // Keeps the store after the rendezvous, and releases only the exchange. Call Keep when the rendezvous has ended. Keep
  // does not wait for other ranks. The server ends with the last copy of this object.
  void Keep() { exchange_.reset(); }

  // If this process serves the store, its server accepts no further connection. Later clients find no store here, and
  // retry until another store is available.
  void TakeNoMore();
  // Closes the store. If this process serves the store, Leave first waits until all clients have closed it, at most
  // until `deadline`; then the server ends. kStoreTimeout gives the number of clients that had not closed it. Call
  // Leave after the rendezvous, when all members are connected. A second call does nothing. Without Leave the server
  // ends with the last copy of server().
  Status Leave(TimePoint deadline);

 private:
  std::shared_ptr<Store> store_;
  std::shared_ptr<TcpStoreServer> server_;
  // Kept until the rendezvous has ended, because other ranks may still read the store's address, which rank 0 published
  // through the exchange.
  std::shared_ptr<Exchange> exchange_;
};

// Opens the store that `method` names. For tcp, unless another process serves the store (external_store):
// - Rank 0 serves the store and uses it. The server listens on every interface, or only on loopback if the host is a
//   loopback address. kAddressInUse comes at once if another socket listens there already.
// - Other ranks connect, and retry until the deadline.
// - A process without a rank serves the store if the host is this machine and the port is free; otherwise it connects.
// For a launch, the launcher decides (Launched::Way):
// - With an exchange, rank 0 serves the store at a free port and gives the address to the others through the exchange.
// - With ports, rank 0 serves the store at the first port that is free. It gives kStale if a store of the same job
//   already listens on one of the ports.
// - With a file, all ranks open a file store.
Result<OpenedStore> OpenStore(const InitMethod& method, const OpenStoreOptions& options);

}  // namespace rondo
