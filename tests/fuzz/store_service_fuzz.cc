// rendezvous/tcp_store_service (and the store_state behind it): everything that clients can send to a store's server,
// in any order.
//
// An input is a sequence of (client, bytes): a byte that names the client, two bytes with the number of bytes, and
// these bytes. The sequence runs three times, cut differently each time, and must end the same way. It then runs again
// with a server that requires proof of a job token: without the proof, no client may get any data.
#include <algorithm>
#include <array>
#include <span>

#include "base/access.h"
#include "base/byte_codec.h"
#include "base/printable.h"
#include "rendezvous/tcp_store_handshake.h"
#include "rendezvous/tcp_store_service.h"
#include "tests/fuzz/harness.h"

namespace rondo::fuzz::store_service_fuzz {
using Fate = TcpStoreService::Fate;

constexpr std::size_t kClients = 3;
// Small limits, so that inputs of a few hundred bytes reach them.
constexpr TcpStoreService::Limits kLimits{.state = {.max_bytes = 2048, .max_wait_bytes = 1024},
                                          .max_clients = 2,
                                          .max_input_bytes = 1 << 20,
                                          .max_client_output_bytes = 256,
                                          .max_client_waits = 3};

// The token's nonces are always the same, so that a seed can contain the correct proof.
std::shared_ptr<const JobToken> Token() {
  return *JobToken::Make("secret", "the token", [](MutableBytes bytes) {
    std::fill(bytes.begin(), bytes.end(), std::byte{7});
    return true;
  });
}

// Everything that a client sends before its first request: hello and proof.
std::string ProvedHello() {
  auto client = store_protocol::ClientHandshake::Begin("j", Token());
  store_protocol::ServerHandshake server(Token());
  std::string hello = client->hello();
  RONDO_HOLDS(server.Take(hello) == store_protocol::ServerHandshake::Next::kSend);
  std::string challenge = server.challenge();
  RONDO_HOLDS(client->Take(challenge) == store_protocol::ClientHandshake::Next::kSend);
  return client->hello() + client->proof();
}

class Play {
 public:
  Play(Cut cut, std::shared_ptr<const JobToken> token)
      : cut_(cut), with_token_(token != nullptr), service_({.job = "", .token = std::move(token), .limits = kLimits}) {
    for (Client& client : clients_) client.id = service_.Connect();
  }

  void Speak(std::size_t who, std::string_view bytes) {
    for (const std::string_view piece : Pieces(bytes, cut_)) {
      if (clients_[who].gone) return;
      Judge(who, service_.Receive(clients_[who].id, AsBytes(piece)));
      Settle();
    }
  }

  // Disconnects all clients, and checks that the server keeps no state for them.
  std::string End() {
    std::string all;
    for (std::size_t who = 0; who < kClients; ++who) {
      Client& client = clients_[who];
      if (!client.gone) service_.Disconnect(client.id);
      CheckAnswers(client.received);
      all += client.received + (client.gone ? "|gone|" : "|there|");
    }
    RONDO_HOLDS(service_.input_bytes() == 0 && service_.clients_after_hello() == 0);
    RONDO_HOLDS(service_.state().pending_waits() == 0);
    return all + std::to_string(service_.state().size());
  }

 private:
  struct Client {
    TcpStoreService::ClientId id = 0;
    bool gone = false;
    std::string received;
  };

  void Judge(std::size_t who, const TcpStoreService::Verdict& verdict) {
    if (verdict.fate == Fate::kKeep) return;
    Client& client = clients_[who];
    RONDO_HOLDS(!verdict.reason.empty() && IsPrintable(verdict.reason), "{}", Printable(verdict.reason));
    Receive(client);
    client.gone = true;
    service_.Disconnect(client.id);
  }

  void Receive(Client& client) {
    store_protocol::Outgoing& output = service_.output(client.id);
    Bytes piece;
    while (output.Front(std::span(&piece, 1)) == 1) {
      client.received += ToText(piece);
      output.Consume(piece.size());
    }
  }

  // Reads all answers. Clients that were stopped because their output was full then continue.
  void Settle() {
    RONDO_HOLDS(service_.state().bytes() <= kLimits.state.max_bytes, "the store holds {} bytes",
                service_.state().bytes());
    RONDO_HOLDS(service_.clients_after_hello() <= kLimits.max_clients);
    RONDO_HOLDS(service_.state().pending_waits() <= kLimits.max_clients * kLimits.max_client_waits);
    for (bool again = true; again;) {
      again = false;
      for (std::size_t who = 0; who < kClients; ++who) {
        Client& client = clients_[who];
        if (client.gone) continue;
        Receive(client);
        if (!service_.LeftOff(client.id)) continue;
        again = true;
        Judge(who, service_.Resume(client.id));
      }
    }
  }

  // Checks that the answers are complete replies to a hello and to requests, and nothing else.
  void CheckAnswers(std::string received) const {
    if (received.empty()) return;
    auto hello = store_protocol::TakeHelloReply(received);
    RONDO_HOLDS(hello && *hello);
    if ((*hello)->challenge) {
      RONDO_HOLDS(with_token_);
      if (received.empty()) return;
      hello = store_protocol::TakeHelloReply(received);
      RONDO_HOLDS(hello && *hello && !(*hello)->challenge);
    }
    const bool welcome = !(*hello)->refused;
    RONDO_HOLDS(welcome || received.empty());
    RONDO_HOLDS(!welcome || (*hello)->proof.has_value() == with_token_, "no client is accepted without a proof");
    for (std::string_view rest = received; !rest.empty();) {
      const auto frame = store_protocol::FirstFrame(rest);
      RONDO_HOLDS(frame && *frame);
      const auto reply = store_protocol::DecodeReply(**frame);
      RONDO_HOLDS(reply);
      // A cancelled wait returns the value of its cancel key, which may be empty.
      if (reply->error && *reply->error != ErrorCode::kAborted) CheckError(Error(*reply->error, reply->payload));
      rest.remove_prefix(store_protocol::kLengthBytes + (*frame)->size());
    }
  }

  const Cut cut_;
  const bool with_token_;
  TcpStoreService service_;
  std::array<Client, kClients> clients_;
};

std::string Speech(std::size_t who, std::string_view bytes) {
  return ByteWriter().Number(static_cast<std::uint8_t>(who)).Text<std::uint16_t>(bytes).Take();
}

Corpus HarnessCorpus() {
  using store_protocol::Encode;
  using store_protocol::EncodeAbandon;
  using store_protocol::EncodeAdd;
  using store_protocol::EncodeCompareSet;
  using store_protocol::EncodeDelete;
  using store_protocol::EncodeGet;
  using store_protocol::EncodeSet;
  using store_protocol::EncodeWait;
  using store_protocol::Hello;
  using store_protocol::kMagic;
  const std::string hello = Encode(Hello{.job = "j"});
  const std::string proved = ProvedHello();
  const std::string hellos = Speech(0, hello) + Speech(1, hello);
  const std::vector<std::string> ab{"a", "b"};
  const std::vector<std::string> just_a{"a"};
  const std::vector<KeyValue> a{{"a", "1"}};
  const std::vector<KeyValue> old{{"a", std::string(600, 'x')}};
  // This batch exceeds the limit on bytes, unless the old value is wrongly subtracted twice.
  const std::vector<KeyValue> twice{{"a", ""}, {"a", ""}, {"b", std::string(1900, 'z')}};
  return {.seeds = {hellos + Speech(0, EncodeWait(1, ab, "stop")) + Speech(1, EncodeSet(1, a)) +
                        Speech(1, EncodeDelete(2, just_a)) + Speech(1, EncodeCompareSet(3, "b", std::nullopt, "2")) +
                        Speech(1, EncodeSet(4, a)) + Speech(0, EncodeGet(2, ab)),
                    hellos + Speech(0, EncodeWait(1, ab, "stop") + EncodeWait(2, ab, "a")) +
                        Speech(1, EncodeAdd(1, "stop", 5) + EncodeAdd(2, "stop", -6)) + Speech(0, EncodeAbandon(1)),
                    hellos + Speech(0, EncodeSet(1, old)) + Speech(0, EncodeSet(2, twice)) +
                        Speech(1, EncodeGet(1, ab) + EncodeGet(2, ab) + EncodeGet(3, ab)),
                    hellos + Speech(2, hello), Speech(0, "GET / HTTP/1.1\r\n"),
                    Speech(0, proved + EncodeSet(1, a)) + Speech(1, proved + EncodeGet(1, ab)) + Speech(2, proved),
                    Speech(0, proved.substr(0, proved.size() - 1) + "?" + EncodeGet(1, ab))},
          .words = {std::string(kMagic), hello, "stop", EncodeAbandon(1), EncodeWait(9, just_a, "")}};
}

void CheckPlay(std::string_view input, const std::shared_ptr<const JobToken>& token) {
  std::string first;
  for (const Cut cut : kCuts) {
    Play play(cut, token);
    ByteReader in(input);
    while (in.remaining() > 0) {
      const std::size_t who = in.Number<std::uint8_t>() % kClients;
      const std::size_t bytes = in.Number<std::uint16_t>();
      play.Speak(who, in.Raw(std::min(bytes, in.remaining())));
    }
    const std::string end = play.End();
    if (cut == Cut::kWhole) first = end;
    RONDO_HOLDS(end == first, "the end depends on how the bytes came");
  }
}

void CheckInput(std::string_view input) {
  static const std::shared_ptr<const JobToken> token = Token();
  CheckPlay(input, nullptr);
  CheckPlay(input, token);
}

}  // namespace rondo::fuzz::store_service_fuzz
