// A rendezvous URL: where the ranks meet, and what it takes to open the store there.
//
// - tcp://host:port, tcp://[::1]:29500: a TCP store;
// - file:///path: a file that all ranks see;
// - env://: what the environment says: RONDO_RENDEZVOUS (any other URL), or MASTER_ADDR and MASTER_PORT (tcp).
//
// Each may carry ?rank=2&world_size=4. For env:// the environment's RANK and WORLD_SIZE fill in what the URL leaves
// open; each variable is also read, and first, with RONDO_ in front (RONDO_RANK, RONDO_MASTER_ADDR ...).
// RONDO_EXTERNAL_STORE=1, whatever the URL, says that somebody else serves the store (a launcher, rondo store), so rank
// 0 need not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/result.h"
#include "rendezvous/net_address.h"
#include "rendezvous/store.h"

namespace rondo {

class TcpStoreServer;

// Gives the value of a variable, or nullopt. The library itself never reads the environment.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct InitMethod {
  enum class Kind : std::uint8_t { kTcp, kFile };
  Kind kind = Kind::kTcp;
  HostPort address;  // kTcp
  std::string path;  // kFile
  std::optional<Rank> rank;
  std::optional<int> world_size;
  bool external_store = false;

  // "tcp://[::1]:29500", "file:///path", without the query.
  std::string ToString() const;
};

// kInvalidArgument names the part that is wrong, what it holds and what is wanted. `environment` may be empty if `url`
// is not env://.
Result<InitMethod> ParseInitMethod(std::string_view url, const Environment& environment = {});

struct OpenStoreOptions {
  std::string job;  // at most 256 bytes
  std::uint64_t generation = 0;
  std::optional<Rank> rank;     // nullopt: by arrival
  bool external_store = false;  // tcp: somebody serves it already
  std::string who;              // this process for people: "host a, pid 17"
  TimePoint deadline;
  std::shared_ptr<const Clock> clock;  // null: the machine's
  Logger* logger = nullptr;            // outlives the opened store
};

// A store, and its server where this process has it.
class OpenedStore {
 public:
  OpenedStore(std::shared_ptr<Store> store, std::shared_ptr<TcpStoreServer> server)
      : store_(std::move(store)), server_(std::move(server)) {}

  Store& store() const { return *store_; }
  bool serves() const { return server_ != nullptr; }
  const std::shared_ptr<TcpStoreServer>& server() const { return server_; }

  // Gives the store up. Where this process serves it: first waits until all others have given it up too, at most until
  // `deadline`, and says whether they had (kStoreTimeout says how many had not); then the server ends. Call it after
  // the meeting, when all members hold a connection; idempotent. Without it the server ends with the last copy of
  // server().
  Status Leave(TimePoint deadline);

 private:
  std::shared_ptr<Store> store_;
  std::shared_ptr<TcpStoreServer> server_;
};

// Opens the store that `method` names. For tcp, unless the store is external:
// - rank 0 serves it there (on every interface, unless the host is a loopback address) and uses it; kAddressInUse at
//   once if somebody listens there already;
// - other ranks connect, again and again until the deadline;
// - a rank that is still unknown serves it if the host is this machine and nobody listens there yet, else connects.
Result<OpenedStore> OpenStore(const InitMethod& method, const OpenStoreOptions& options);

}  // namespace rondo
