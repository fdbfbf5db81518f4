#include "simulation/store_node.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "rendezvous/tcp_store_handshake.h"

namespace rondo::simulation {
namespace {

// No communicator of a job has such an id: their ids are small, or random numbers from Split.
constexpr std::uint64_t kPortCommunicators = 0x5709'0000'0000'0000;
constexpr std::size_t kReadBytes = 4096;

std::string NameOf(const StorePlace& place) { return fmt::format("sim://{}:{}", place.server, place.port); }

// The group of a port: rank 0 is the store, and rank r + 1 is the network's rank r.
EndpointConfig GroupOf(SimNetwork& network, const StorePlace& place, int clients, Rank rank, PeerObserver* observer) {
  EndpointConfig config;
  config.communicator = kPortCommunicators + place.port;
  config.rank = rank;
  config.addresses.push_back(network.transport(place.server)->Address());
  for (Rank client = 0; client < clients; ++client) config.addresses.push_back(network.transport(client)->Address());
  config.observer = observer;
  return config;
}

}  // namespace

std::size_t ZeroCopyText::Write(Lane& lane, std::span<const Bytes> pieces) {
  std::string& text = texts_.emplace_back();
  for (const Bytes piece : pieces) text += ToText(piece);
  const Bytes whole = AsBytes(text);
  const std::size_t taken = lane.Write(std::span(&whole, 1));
  if (taken == 0) texts_.pop_back();
  return taken;
}

// ---- the node ----

class StoreNode::Port final : public PeerObserver {
 public:
  // A client has opened its lane.
  void OnControl(Rank from, ControlMessage) override { called.push_back(from); }
  void OnPeerLost(Rank peer, Error) override { lost.push_back(peer); }

  std::vector<Rank> called;
  std::vector<Rank> lost;
  std::map<Rank, Client> clients;
  std::unique_ptr<Endpoint> endpoint;  // declared last, so that it is destroyed before the data that its events change
};

StoreNode::StoreNode(SimNetwork& network, Cluster& cluster, Rank server, int clients, int ports)
    : network_(network), service_(TcpStoreService::Options{}) {
  for (int port = 0; port < ports; ++port) {
    auto& made = *ports_.emplace_back(std::make_unique<Port>());
    const StorePlace place{server, static_cast<std::uint64_t>(port)};
    auto endpoint = network.transport(server)->OpenEndpoint(GroupOf(network, place, clients, 0, &made));
    RONDO_CHECK(endpoint.has_value(), "{}", endpoint.error().ToString());
    made.endpoint = std::move(*endpoint);
  }
  cluster.Serve(server, [this] { Serve(); });
}

StoreNode::~StoreNode() {
  for (const auto& port : ports_) port->endpoint.reset();
}

void StoreNode::Stall(std::string key_part, TimePoint until) {
  stalled_part_ = std::move(key_part);
  stalled_until_ = until;
}

void StoreNode::Serve() {
  for (const auto& port : ports_) {
    for (const Rank peer : std::exchange(port->called, {})) {
      const auto [client, fresh] = port->clients.try_emplace(peer);
      if (!fresh) continue;
      auto lane = port->endpoint->Open(peer, 0);
      RONDO_CHECK(lane.has_value(), "{}", lane.error().ToString());
      client->second.lane = *lane;
      client->second.id = service_.Connect();
    }
    // Polls after Open, because bytes that have already arrived cause no further event.
    port->endpoint->Poll(network_.clock()->Now());
    for (const Rank peer : std::exchange(port->lost, {})) {
      const auto client = port->clients.find(peer);
      if (client == port->clients.end() || std::exchange(client->second.gone, true)) continue;
      service_.Disconnect(client->second.id);
    }
    for (auto& [peer, client] : port->clients)
      if (!client.gone) Read(client);
  }
  // One client's request can complete an answer to another client, so answers are written to all clients.
  service_.TakeAnswered();
  for (const auto& port : ports_)
    for (auto& [peer, client] : port->clients)
      if (!client.gone) Write(client);
}

void StoreNode::Read(Client& client) {
  std::array<std::byte, kReadBytes> buffer;
  while (!client.gone) {
    const std::size_t got = client.lane->ReadInto(buffer);
    if (got == 0) break;
    client.unread += ToText(Bytes(buffer).first(got));
    // Until the hello is complete, the service gets all bytes that have arrived. Later it gets one frame at a time, so
    // that one frame can be stalled alone.
    if (!service_.SaidHello(client.id)) {
      Take(client, std::exchange(client.unread, {}));
      continue;
    }
    while (!client.gone) {
      const auto frame = store_protocol::FirstFrame(client.unread);
      if (frame && !frame->has_value()) break;
      const std::size_t bytes = frame ? store_protocol::kLengthBytes + (*frame)->size() : client.unread.size();
      const std::string request = client.unread.substr(0, bytes);
      client.unread.erase(0, bytes);
      const bool stalls = !stalled_part_.empty() && network_.clock()->Now() < stalled_until_ &&
                          request.find(stalled_part_) != std::string::npos;
      if (!stalls) {
        Take(client, request);
        continue;
      }
      ++stalled_;
      network_.At(stalled_until_, [this, &client, request] {
        if (client.gone) return;
        Take(client, request);
        for (const auto& port : ports_) port->endpoint->Wake();
      });
    }
  }
}

void StoreNode::Take(Client& client, std::string_view bytes) {
  const TcpStoreService::Verdict verdict = service_.Receive(client.id, AsBytes(bytes));
  if (verdict.fate == TcpStoreService::Fate::kKeep) return;
  client.gone = true;
  Write(client);
  service_.Disconnect(client.id);
  client.lane->Revoke();
}

void StoreNode::Write(Client& client) {
  store_protocol::Outgoing& output = service_.output(client.id);
  std::array<Bytes, 16> pieces;
  while (!output.empty()) {
    const std::size_t count = output.Front(pieces);
    const std::size_t taken = client.outgoing_text.Write(*client.lane, std::span(pieces).first(count));
    if (taken == 0) return;
    output.Consume(taken);
    if (service_.LeftOff(client.id)) (void)service_.Resume(client.id);
  }
}

// ---- the client ----

class StoreClient::Observer final : public PeerObserver {
 public:
  void OnControl(Rank, ControlMessage) override {}
  void OnPeerLost(Rank, Error error) override { lost = std::move(error); }
  std::optional<Error> lost;
};

StoreClient::StoreClient(SimNetwork& network, Cluster& cluster, const Options& options)
    : RemoteStore(NameOf(options.place)),
      network_(network),
      cluster_(cluster),
      answer_grace_(options.answer_grace),
      observer_(std::make_unique<Observer>()) {}

StoreClient::~StoreClient() = default;

Result<std::unique_ptr<StoreClient>> StoreClient::Connect(SimNetwork& network, Cluster& cluster,
                                                          const Options& options) {
  std::unique_ptr<StoreClient> client(new StoreClient(network, cluster, options));
  RONDO_ASSIGN(client->endpoint_, network.transport(options.self)
                                      ->OpenEndpoint(GroupOf(network, options.place, options.clients, options.self + 1,
                                                             client->observer_.get())));
  RONDO_ASSIGN(client->lane_, client->endpoint_->Open(0, 0));
  client->endpoint_->SendControl(0, {ControlKind::kHeartbeat, {}});
  RONDO_ASSIGN(auto handshake, store_protocol::ClientHandshake::Begin(options.job, nullptr));
  client->unsent_ = handshake.hello();
  while (true) {
    RONDO_TRY(client->Move());
    RONDO_ASSIGN(const auto next, handshake.Take(client->unread_));
    if (next == store_protocol::ClientHandshake::Next::kWelcome) return client;
    if (network.clock()->Now() >= options.deadline)
      return Fail(ErrorCode::kUnreachable, "no store answered at {} in time", client->Describe());
    cluster.Block(options.deadline);
  }
}

Status StoreClient::Move() {
  if (cluster_.dying()) return tl::unexpected(Lost("this process was killed"));
  if (lost_) return tl::unexpected(*lost_);
  endpoint_->Poll(network_.clock()->Now());
  if (!unsent_.empty()) {
    const Bytes piece = AsBytes(unsent_);
    const std::size_t taken = outgoing_text_.Write(*lane_, std::span(&piece, 1));
    unsent_.erase(0, taken);
  }
  std::array<std::byte, kReadBytes> buffer;
  while (const std::size_t got = lane_->ReadInto(buffer)) unread_ += ToText(Bytes(buffer).first(got));
  if (observer_->lost) lost_ = Lost(observer_->lost->message());
  if (lane_->state() == LaneState::kFailed) lost_ = Lost(lane_->failure()->message());
  if (lost_) return tl::unexpected(*lost_);
  return {};
}

Status StoreClient::Await(std::uint64_t id, TimePoint deadline) {
  while (true) {
    RONDO_TRY(Move());
    while (true) {
      const auto frame = store_protocol::FirstFrame(unread_);
      if (frame && !frame->has_value()) break;
      auto reply = frame ? store_protocol::DecodeReply(**frame) : tl::unexpected(frame.error());
      if (!reply) {
        lost_ = Lost(reply.error().message());
        return tl::unexpected(*lost_);
      }
      unread_.erase(0, store_protocol::kLengthBytes + (*frame)->size());
      const std::uint64_t answered = reply->id;
      answers_.insert_or_assign(answered, PayloadOf(std::move(*reply)));
    }
    if (answers_.count(id) != 0 || network_.clock()->Now() >= deadline) return {};
    cluster_.Block(deadline);
  }
}

Result<std::string> StoreClient::Ask(const Encoded& encoded, TimePoint deadline, const Asked& asked) {
  const std::uint64_t id = ++last_id_;
  answers_.clear();  // removes answers that arrived too late
  unsent_ += encoded(id);
  RONDO_TRY(Await(id, deadline));
  if (answers_.count(id) == 0 && asked.abandon) {
    unsent_ += store_protocol::EncodeAbandon(id);
    RONDO_TRY(Await(id, network_.clock()->Now() + answer_grace_));
  }
  const auto answer = answers_.find(id);
  if (answer != answers_.end()) return std::move(answer->second);
  return tl::unexpected(Unanswered(asked));
}

}  // namespace rondo::simulation
