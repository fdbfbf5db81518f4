// Opens the store that a rendezvous URL names: connects to its server, or serves it.
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

// The exchange that the ranks of a launch by PMI or PMIx meet through; null where `method` meets otherwise. Errors:
// those of the launch's OpenExchange.
Result<std::shared_ptr<Exchange>> OpenExchange(const InitMethod& method, std::shared_ptr<const Clock> clock,
                                               TimePoint deadline);

struct OpenStoreOptions {
  std::string job;  // at most 256 bytes
  // Of stores over TCP: who has no such token is not served, and no other server is believed.
  Identity identity = {};
  std::uint64_t generation = 0;
  std::optional<Rank> rank;             // nullopt: by arrival
  bool external_store = false;          // tcp: somebody serves it already
  std::shared_ptr<Exchange> exchange;   // what OpenExchange gave
  std::vector<std::string> hosts = {};  // with an exchange: addresses of this host to tell others, best first
  std::string who;                      // this process for people: "host a, pid 17"
  PortRange ports = {};                 // of a store that is served here at a port of its own choice; not set: any
  // Of a process that cannot take part: where others wait to be told where its store is, they are told this. May be
  // null.
  const Error* failure = nullptr;
  TimePoint deadline;
  std::shared_ptr<const Clock> clock;  // null: the machine's
  Logger* logger = nullptr;            // outlives the opened store
};

// A store, and its server where this process has it.
class OpenedStore {
 public:
  OpenedStore(std::shared_ptr<Store> store, std::shared_ptr<TcpStoreServer> server)
      : store_(std::move(store)), server_(std::move(server)) {}
  // The same, which holds on to the exchange until it is left.
  OpenedStore Keeping(std::shared_ptr<Exchange> exchange) && {
    exchange_ = std::move(exchange);
    return std::move(*this);
  }

  Store& store() const { return *store_; }
  bool serves() const { return server_ != nullptr; }
  const std::shared_ptr<TcpStoreServer>& server() const { return server_; }

  // Keeps the store beyond the meeting, and gives up only what the launcher lent for finding it. Call it when all have
  // met; nothing of Leave's promises to others is made: a server ends with the last copy of this.
  void Keep() { exchange_.reset(); }

  // Where this process serves it, whoever is not connected yet finds no store here from now on, and tries again until
  // there is one.
  void TakeNoMore();
  // Gives the store up. Where this process serves it: first waits until all others have given it up too, at most until
  // `deadline`, and says whether they had (kStoreTimeout says how many had not); then the server ends. Call it after
  // the meeting, when all members hold a connection; idempotent. Without it the server ends with the last copy of
  // server().
  Status Leave(TimePoint deadline);

 private:
  std::shared_ptr<Store> store_;
  std::shared_ptr<TcpStoreServer> server_;
  std::shared_ptr<Exchange> exchange_;  // until all have met: others may still ask the launcher for rank 0's word
};

// Opens the store that `method` names. For tcp, unless the store is external:
// - rank 0 serves it there (on every interface, unless the host is a loopback address) and uses it; kAddressInUse at
//   once if somebody listens there already;
// - other ranks connect, again and again until the deadline;
// - a rank that is still unknown serves it if the host is this machine and nobody listens there yet, else connects.
// For a launch: rank 0 serves it at a port of its own and tells the others through the exchange, or at the first free
// one of several; kStale if a store of this very job listens on one of these already.
Result<OpenedStore> OpenStore(const InitMethod& method, const OpenStoreOptions& options);

}  // namespace rondo
