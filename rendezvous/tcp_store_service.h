// Everything a TCP store's server does apart from moving bytes: who said hello, what each asked, who waits for what.
// Bytes in, bytes out, now; no sockets, clock or thread, so that a test feeds it byte by byte.
//
// Bounded: the sum of all that is held is at most Limits::state, plus max_input_bytes for requests that arrive in
// pieces, plus for each client the answers to what it asked before its output passed max_client_output_bytes (large
// values in them are shared with the store, not copied).
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
    std::size_t max_clients = 16384;          // that said hello; one more is refused with kResource
    std::size_t max_input_bytes = 256 << 20;  // of all clients' unfinished requests together; who passes it is dropped
    std::size_t max_client_output_bytes = 1 << 20;  // while more wait to be sent, this client's requests wait unread
    std::size_t max_client_waits = 4096;            // pending at once; one more is answered with kResource
  };

  struct Options {
    std::string job;  // serves clients of this job only; empty: of any
    // Serves only who proves to know it (base/access.h); null: whoever has a token is refused.
    std::shared_ptr<const JobToken> token;
    Limits limits;
  };

  explicit TcpStoreService(Options options) : options_(std::move(options)), state_(options_.limits.state) {}

  enum class Fate {
    kKeep,
    kClose,  // a client that was refused: close it once its output is sent
    kDrop,   // no client of ours: close it now and say nothing to it
  };
  struct Verdict {
    Fate fate = Fate::kKeep;
    std::string reason;        // for the log, unless kKeep
    bool auth_failed = false;  // kClose: it did not prove to know the job's token
  };

  ClientId Connect();
  // The client's hello, if it is one of ours, is answered with this refusal; nullopt: it is welcome after all.
  void RefuseAtHello(ClientId id, std::optional<Error> why) { clients_.at(id).refusal = std::move(why); }
  // Takes bytes from a client and answers what they complete.
  Verdict Receive(ClientId id, Bytes bytes);
  // Goes on with requests that Receive left because the output was full.
  Verdict Resume(ClientId id);
  // Forgets the client and frees its waits.
  void Disconnect(ClientId id);

  store_protocol::Outgoing& output(ClientId id) { return clients_.at(id).output; }
  // Whether the client's bytes should be read now, or stay in the wire.
  bool WantsInput(ClientId id) const;
  // Whether requests have arrived that wait for the output to drain; then Resume.
  bool LeftOff(ClientId id) const { return clients_.at(id).left_off; }
  // And was welcomed, so that it may ask.
  bool SaidHello(ClientId id) const { return clients_.at(id).said_hello; }

  // Clients to whom answers were written since the last call, by anybody's request. May name disconnected ones.
  std::vector<ClientId> TakeAnswered() { return std::exchange(answered_, {}); }

  std::size_t clients_after_hello() const { return clients_after_hello_; }
  std::size_t input_bytes() const { return input_bytes_; }
  const StoreState& state() const { return state_; }

 private:
  struct Client {
    explicit Client(std::shared_ptr<const JobToken> token) : handshake(std::move(token)) {}

    store_protocol::ServerHandshake handshake;
    bool said_hello = false;  // and was welcomed
    std::optional<Error> refusal;
    bool closing = false;   // nothing more is read
    bool left_off = false;  // because the output was full
    std::string input;      // an unfinished hello or request, and what followed a full output
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
