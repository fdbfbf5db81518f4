// The TCP store's server without its sockets: it tracks the clients' handshakes, requests and pending Waits. It
// never waits, and uses no clock or thread, so a test can pass it a client's bytes one by one.
//
// Memory is bounded by the sum of Limits::state, max_input_bytes for unfinished requests, and the outputs of all
// clients. A client's output holds the answers to requests that were read before the output passed
// max_client_output_bytes. Large values in the output are shared with the store, not copied.
//
// Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "rendezvous/store_state.h"
#include "rendezvous/tcp_store_handshake.h"
#include "rendezvous/tcp_store_protocol.h"

namespace rondo {

class TcpStoreService {
 public:
  using ClientId = std::uint64_t;

  struct Limits {
    StoreState::Limits state;
    std::size_t max_clients = 16384;  // clients that completed their hello; one more is refused with kResource
    // The limit for unfinished requests of all clients together. A client whose request exceeds the limit is dropped.
    std::size_t max_input_bytes = 256 << 20;
    // While a client's output exceeds this, its further requests wait unread.
    std::size_t max_client_output_bytes = 1 << 20;
    // The limit for pending Waits of one client; one more is answered with kResource.
    std::size_t max_client_waits = 4096;
  };

  struct Options {
    std::string job;  // only clients of this job are served; empty: every job is served
    // Only clients that prove this token are served (base/handshake.h). null: a client that has a token is refused.
    std::shared_ptr<const JobToken> token;
    Limits limits;
  };

  explicit TcpStoreService(Options options) : options_(std::move(options)), state_(options_.limits.state) {}

  enum class Fate {
    kKeep,
    kClose,  // the client was refused: close the connection when its output is sent
    kDrop,   // a foreign client: close the connection now, without an answer
  };
  struct Verdict {
    Fate fate = Fate::kKeep;
    std::string reason;        // for the log; empty if kKeep
    bool auth_failed = false;  // for kClose: the client did not prove the job's token
  };

  ClientId Connect();
  // When this client's hello is complete, the service answers it with this refusal. nullopt withdraws an earlier
  // refusal.
  void RefuseAtHello(ClientId id, std::optional<Error> why) { clients_.at(id).refusal = std::move(why); }
  // Takes bytes from a client and answers the requests that they complete.
  Verdict Receive(ClientId id, Bytes bytes);
  // Continues with requests that Receive postponed because the output was full.
  Verdict Resume(ClientId id);
  // Removes the client and ends its Waits.
  void Disconnect(ClientId id);

  store_protocol::Outgoing& output(ClientId id) { return clients_.at(id).output; }
  // Whether the client's socket should be read now. If not, its bytes stay in the socket.
  bool WantsInput(ClientId id) const;
  // Whether requests wait because the output is full. The caller must call Resume when the output has been sent.
  bool LeftOff(ClientId id) const { return clients_.at(id).left_off; }
  // Whether the client completed its hello and was accepted.
  bool SaidHello(ClientId id) const { return clients_.at(id).said_hello; }

  // The clients that got new output since the previous call of this function. A request of one client can produce
  // output for others. Some of these clients may be disconnected already.
  std::vector<ClientId> TakeAnswered() { return std::exchange(answered_, {}); }

  std::size_t clients_after_hello() const { return clients_after_hello_; }
  std::size_t input_bytes() const { return input_bytes_; }
  const StoreState& state() const { return state_; }

 private:
  struct Client {
    explicit Client(std::shared_ptr<const JobToken> token) : handshake(std::move(token)) {}

    store_protocol::ServerHandshake handshake;
    bool said_hello = false;  // completed its hello and was accepted
    std::optional<Error> refusal;
    bool closing = false;   // no further bytes are read
    bool left_off = false;  // requests wait because the output is full
    // Bytes that are not processed yet: an unfinished hello or request, or requests that wait because the output is
    // full.
    std::string input;
    store_protocol::Outgoing output;
    std::map<std::uint64_t, StoreState::WaitId> waits;  // by request id
  };
  struct Waiting {
    ClientId client = 0;
    std::uint64_t request = 0;
  };

  Verdict Process(ClientId id, Client& client);
  Verdict TakeHello(Client& client);
  Verdict Refuse(Client& client, const Error& error);
  Status Answer(ClientId id, Client& client, const store_protocol::Request& request);
  void AnswerWait(ClientId id, std::uint64_t request, const Result<std::vector<StoreState::Value>>& values);
  void AnswerValues(std::uint64_t request, const std::vector<StoreState::Value>& values, store_protocol::Outgoing& out);
  Status StartWait(ClientId id, Client& client, std::uint64_t request, const store_protocol::WaitRequest& wait);
  void Abandon(Client& client, std::uint64_t request);
  void AnswerFinishedWaits();

  const Options options_;
  StoreState state_;
  ClientId last_client_ = 0;
  std::map<ClientId, Client> clients_;
  std::map<StoreState::WaitId, Waiting> waiting_;
  std::vector<ClientId> answered_;
  std::size_t clients_after_hello_ = 0;
  std::size_t input_bytes_ = 0;
};

}  // namespace rondo
