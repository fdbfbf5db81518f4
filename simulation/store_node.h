// A rendezvous store on a simulated network: the real service (rendezvous/tcp_store_service.h) behind simulated lanes,
// so that its connections are slow, cut, partitioned and killed like all others, and a client that says to it what a
// TCP client says.
//
// Thread rule: one thread, that of the network.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/remote_store.h"
#include "rendezvous/tcp_store_service.h"
#include "simulation/cluster.h"
#include "transport/sim/sim.h"

namespace rondo::simulation {

// What was written to a lane, kept for as long as the lane may read it: for good, since stores say little.
class LentText {
 public:
  std::size_t Write(Lane& lane, std::span<const Bytes> pieces);

 private:
  std::deque<std::string> texts_;
};

// The store's port: which rank of the network serves it, and which of its ports that is. Connections of one port end
// for good with the store's or the client's control connection there; another port is another try.
struct StorePlace {
  Rank server = kNoRank;
  std::uint64_t port = 0;
};

class StoreNode {
 public:
  // Serves at `server`, on ports 0..ports-1, every rank of the network below `clients`. Both outlive it.
  StoreNode(SimNetwork& network, Cluster& cluster, Rank server, int clients, int ports);
  ~StoreNode();
  StoreNode(const StoreNode&) = delete;
  StoreNode& operator=(const StoreNode&) = delete;

  // From now on requests that name a key with this in it are not heard until `until`.
  void Stall(std::string key_part, TimePoint until);
  std::uint64_t stalled() const { return stalled_; }

 private:
  class Port;
  struct Client {
    Lane* lane = nullptr;
    TcpStoreService::ClientId id = 0;
    std::string unread;  // the beginning of a request
    LentText lent;
    bool gone = false;
  };

  void Serve();
  void Read(Client& client);
  void Take(Client& client, std::string_view bytes);
  void Write(Client& client);

  SimNetwork& network_;
  TcpStoreService service_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::string stalled_part_;
  TimePoint stalled_until_{};
  std::uint64_t stalled_ = 0;
};

// One rank's end of one port; opened once, whatever number of connections are then made over it.
class StoreClient final : public RemoteStore {
 public:
  struct Options {
    StorePlace place;
    Rank self = kNoRank;  // of the network
    int clients = 0;      // as the node has it
    std::string job;
    TimePoint deadline;                                      // of the hello
    Duration answer_grace = std::chrono::milliseconds(200);  // as TcpStoreClient's
  };

  // From inside a process. kUnreachable: no welcome before the deadline; kStoreLost: the store is gone; others as the
  // store refuses.
  static Result<std::unique_ptr<StoreClient>> Connect(SimNetwork& network, Cluster& cluster, const Options& options);
  ~StoreClient() override;

 private:
  class Observer;

  StoreClient(SimNetwork& network, Cluster& cluster, const Options& options);
  Result<std::string> Ask(const Encoded& encoded, TimePoint deadline, const Asked& asked) override;
  // Moves bytes both ways; kStoreLost once that is over.
  Status Move();
  Status Await(std::uint64_t id, TimePoint deadline);

  SimNetwork& network_;
  Cluster& cluster_;
  const Duration answer_grace_;
  std::unique_ptr<Observer> observer_;
  LentText lent_;
  std::unique_ptr<Endpoint> endpoint_;  // dies before what was lent to it
  Lane* lane_ = nullptr;
  std::uint64_t last_id_ = 0;
  std::string unsent_;
  std::string unread_;
  std::map<std::uint64_t, Result<std::string>> answers_;
  std::optional<Error> lost_;
};

}  // namespace rondo::simulation
