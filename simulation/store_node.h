// A rendezvous store on a simulated network. The real service (rendezvous/tcp_store_service.h) runs behind simulated
// lanes, so its connections can be slow, cut, partitioned and killed like all others. A client sends the same bytes as
// a TCP client.
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

// Keeps every text that was written to a lane, because the lane may still read the text. All texts are freed when this
// object is destroyed. They need little memory, because stores send little.
class ZeroCopyText {
 public:
  std::size_t Write(Lane& lane, std::span<const Bytes> pieces);

 private:
  std::deque<std::string> texts_;
};

// A port of the store: the store's rank in the network, and the number of the port. If the control connection between
// the store and a client breaks, the client can never use this port again. For another attempt it needs another port.
struct StorePlace {
  Rank server = kNoRank;
  std::uint64_t port = 0;
};

class StoreNode {
 public:
  // Runs a store at rank `server` of the network, for ranks 0..clients-1, on ports 0..ports-1. `network` and `cluster`
  // must outlive the store.
  StoreNode(SimNetwork& network, Cluster& cluster, Rank server, int clients, int ports);
  ~StoreNode();
  StoreNode(const StoreNode&) = delete;
  StoreNode& operator=(const StoreNode&) = delete;

  // Ignores requests that name a key with `key_part` in it, from now until `until`.
  void Stall(std::string key_part, TimePoint until);
  std::uint64_t stalled() const { return stalled_; }

 private:
  class Port;
  struct Client {
    Lane* lane = nullptr;
    TcpStoreService::ClientId id = 0;
    std::string unread;  // an incomplete request
    ZeroCopyText outgoing_text;
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

// One rank's end of one port. It is opened once; any number of connections can then use it.
class StoreClient final : public RemoteStore {
 public:
  struct Options {
    StorePlace place;
    Rank self = kNoRank;  // a rank of the network
    int clients = 0;      // as for the StoreNode
    std::string job;
    TimePoint deadline;                                      // deadline of the first exchange with the store
    Duration answer_grace = std::chrono::milliseconds(200);  // as in TcpStoreClient
  };

  // Call it from inside a process. kUnreachable: no answer before the deadline. kStoreLost: the store is lost. Other
  // errors: the store refused.
  static Result<std::unique_ptr<StoreClient>> Connect(SimNetwork& network, Cluster& cluster, const Options& options);
  ~StoreClient() override;

 private:
  class Observer;

  StoreClient(SimNetwork& network, Cluster& cluster, const Options& options);
  Result<std::string> Ask(const Encoded& encoded, TimePoint deadline, const Asked& asked) override;
  // Moves bytes in both directions; returns kStoreLost when the connection has ended.
  Status Move();
  Status Await(std::uint64_t id, TimePoint deadline);

  SimNetwork& network_;
  Cluster& cluster_;
  const Duration answer_grace_;
  std::unique_ptr<Observer> observer_;
  ZeroCopyText outgoing_text_;
  std::unique_ptr<Endpoint> endpoint_;  // destroyed before the text that it sends
  Lane* lane_ = nullptr;
  std::uint64_t last_id_ = 0;
  std::string unsent_;
  std::string unread_;
  std::map<std::uint64_t, Result<std::string>> answers_;
  std::optional<Error> lost_;
};

}  // namespace rondo::simulation
