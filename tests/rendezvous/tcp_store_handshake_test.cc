// Tests the handshakes of a TCP store's client and server, without sockets: which clients a server accepts, and which
// servers a client accepts.
#include "rendezvous/tcp_store_handshake.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace rondo::store_protocol {
namespace tcp_store_handshake_test {

using Token = std::shared_ptr<const JobToken>;

// A token with the same nonces in every run: the first nonce is 16 bytes of value 1, the second 16 bytes of value 2,
// and so on.
Token CountingToken(std::string_view text) {
  return *JobToken::Make(text, "the token", [next = std::byte{0}](MutableBytes bytes) mutable {
    next = static_cast<std::byte>(std::to_integer<int>(next) + 1);
    std::fill(bytes.begin(), bytes.end(), next);
    return true;
  });
}

struct Shake {
  std::vector<std::string> said;  // in order: hello, reply, proof, reply
  bool judged = false;            // the server reached kJudge
  std::optional<Error> server_says, client_says;
  bool welcome = false;  // the client accepted the server
};

using Change = std::function<void(std::size_t number, std::string&)>;  // changes a message on its way

template <typename Side>
Result<typename Side::Next> Feed(Side& side, std::string_view message, std::size_t step) {
  std::string came;
  Result<typename Side::Next> next = Side::Next::kRead;
  while (!message.empty() && next && *next == Side::Next::kRead) {
    came += message.substr(0, step);
    message.remove_prefix(std::min(step, message.size()));
    next = side.Take(came);
  }
  return next;
}

Shake ShakeHands(const Token& client_token, const Token& server_token, const HelloReply& judgement = {},
                 const Change& change = nullptr, std::size_t step = 10000) {
  Shake shake;
  const auto carry = [&](std::string message) {
    if (change) change(shake.said.size(), message);
    shake.said.push_back(message);
    return message;
  };
  auto client = ClientHandshake::Begin("j", client_token);
  REQUIRE(client);
  ServerHandshake server(server_token);
  std::string to_server = carry(client->hello());
  while (!to_server.empty()) {
    const auto fed = Feed(server, std::exchange(to_server, ""), step);
    std::string to_client;
    if (!fed) {
      shake.server_says = fed.error();
      if (fed.error().code() == ErrorCode::kProtocol) return shake;
      to_client = carry(server.Encode({.refused = fed.error()}));
    } else if (*fed == ServerHandshake::Next::kSend) {
      to_client = carry(server.challenge());
    } else if (*fed == ServerHandshake::Next::kJudge) {
      shake.judged = true;
      CHECK(server.hello().job == "j");
      to_client = carry(server.Encode(judgement));
    }
    const auto answer = Feed(*client, to_client, step);
    if (!answer) {
      shake.client_says = answer.error();
    } else if (*answer == ClientHandshake::Next::kSend) {
      to_server = carry(client->proof());
    } else {
      shake.welcome = *answer == ClientHandshake::Next::kWelcome;
    }
  }
  return shake;
}

bool Has(const std::optional<Error>& error, std::string_view part) {
  return error && error->code() == ErrorCode::kAuth && error->message().find(part) != std::string::npos;
}

TEST_CASE("Without tokens there are a hello and a reply; with the same one there is a challenge and a proof between") {
  for (const std::size_t step : {1u, 2u, 13u, 10000u}) {
    const Shake plain = ShakeHands(nullptr, nullptr, {}, nullptr, step);
    CHECK(plain.welcome);
    CHECK(plain.said == std::vector<std::string>{Encode(Hello{.job = "j"}), Encode(HelloReply{})});
    const Shake proved = ShakeHands(CountingToken("secret"), CountingToken("secret"), {}, nullptr, step);
    CHECK(proved.welcome);
    CHECK(proved.said.size() == 4);
    CHECK(proved.said[2].size() == kProofBytes);
  }
}

// docs/WIRE.md has the same bytes. Python's hmac module computed the proofs.
TEST_CASE("The example of docs/WIRE.md with a token") {
  const Shake shake = ShakeHands(CountingToken("secret"), CountingToken("secret"));
  const auto hex = [](std::string_view bytes) {
    std::string text;
    for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
  };
  const std::string nonce = hex(std::string(16, '\1'));
  REQUIRE(shake.said.size() == 4);
  CHECK(hex(shake.said[0]) == "524f4e444f004b5602000000010010006a" + nonce);
  CHECK(hex(shake.said[1]) == "524f4e444f004b56020000011000" + nonce);
  CHECK(hex(shake.said[2]) == "846a064144400caa5694d147bd4175ebd85fbf0025620d992658397e922ba54e");
  CHECK(hex(shake.said[3]) ==
        "524f4e444f004b56020000020000"
        "e560920a46beaa0235cf75eb0cb4ba15197518bdd156cd9a7839819eb955fe0c");
}

TEST_CASE("Another token, or one on one side alone, is refused before anything is judged, in words on both sides") {
  const Shake other = ShakeHands(CountingToken("secret"), CountingToken("Secret"));
  CHECK(Has(other.client_says, "this process (RONDO_TOKEN) and the store have different job tokens"));
  const Shake none_here = ShakeHands(nullptr, CountingToken("secret"));
  CHECK(Has(none_here.client_says, "the store has a job token, and this process has none"));
  const Shake none_there = ShakeHands(CountingToken("secret"), nullptr);
  CHECK(Has(none_there.client_says, "this process has a job token (RONDO_TOKEN), and the store has none"));
  for (const Shake& shake : {other, none_here, none_there}) {
    CHECK_FALSE(shake.judged);
    CHECK_FALSE(shake.welcome);
    CHECK(Has(shake.server_says, "token"));
  }
}

TEST_CASE("A refusal for another reason is proved, too, and reported as it is") {
  const HelloReply full{.refused = Error(ErrorCode::kResource, "the store is full")};
  const Shake shake = ShakeHands(CountingToken("secret"), CountingToken("secret"), full);
  REQUIRE(shake.client_says.has_value());
  CHECK(shake.client_says->code() == ErrorCode::kResource);
  CHECK(shake.said[3].size() == Encode(full).size() + kProofBytes);
}

TEST_CASE("A server that does not ask for a proof, or only claims to know the token, is not believed") {
  const auto at_once = [](std::size_t number, std::string& message) {
    if (number == 1) message = Encode(HelloReply{});
  };
  CHECK(Has(ShakeHands(CountingToken("secret"), CountingToken("secret"), {}, at_once).client_says,
            "that side has no token"));
  for (const HelloReply& claim : {HelloReply{}, HelloReply{.proof = TokenProof{}}}) {
    const auto lie = [&](std::size_t number, std::string& message) {
      if (number == 3) message = Encode(claim);
    };
    const Shake shake = ShakeHands(CountingToken("secret"), CountingToken("secret"), {}, lie);
    CHECK_FALSE(shake.welcome);
    CHECK(Has(shake.client_says, "the other side did not prove"));
  }
}

TEST_CASE("What was recorded of one handshake is worth nothing in another one, to either side") {
  // The same tokens are used for both handshakes, so the second handshake gets the next nonces.
  const Token of_client = CountingToken("secret"), of_server = CountingToken("secret");
  const Shake first = ShakeHands(of_client, of_server);
  REQUIRE(first.welcome);
  ServerHandshake again(of_server);
  REQUIRE(*Feed(again, first.said[0], 10000) == ServerHandshake::Next::kSend);
  const auto replayed = Feed(again, first.said[2], 10000);
  REQUIRE_FALSE(replayed);
  CHECK(replayed.error().code() == ErrorCode::kAuth);
  const Shake lured = ShakeHands(of_client, of_server, {}, [&](std::size_t number, std::string& message) {
    if (number == 1 || number == 3) message = first.said[number];
  });
  CHECK_FALSE(lured.welcome);
}

TEST_CASE("With any bit of any message another, no client is accepted") {
  const std::vector<std::string> good = ShakeHands(CountingToken("secret"), CountingToken("secret")).said;
  for (std::size_t message = 0; message < good.size(); ++message) {
    for (std::size_t bit = 0; bit < 8 * good[message].size(); ++bit) {
      CAPTURE(message);
      CAPTURE(bit);
      const Shake shake =
          ShakeHands(CountingToken("secret"), CountingToken("secret"), {}, [&](std::size_t number, std::string& bytes) {
            if (number == message && bit / 8 < bytes.size())
              bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
          });
      CHECK_FALSE(shake.welcome);
    }
  }
}

TEST_CASE("A second challenge is a broken protocol, and without random bytes there is no shake") {
  auto client = ClientHandshake::Begin("j", CountingToken("secret"));
  const std::string challenge = Encode(HelloReply{.challenge = Nonce{}});
  REQUIRE(*Feed(*client, challenge, 10000) == ClientHandshake::Next::kSend);
  CHECK(Feed(*client, challenge, 10000).error().code() == ErrorCode::kProtocol);
  const Token dry = *JobToken::Make("secret", "", [](MutableBytes) { return false; });
  CHECK(ClientHandshake::Begin("j", dry).error().code() == ErrorCode::kResource);
  ServerHandshake server(dry);
  CHECK(Feed(server, ClientHandshake::Begin("j", CountingToken("secret"))->hello(), 10000).error().code() ==
        ErrorCode::kResource);
}

}  // namespace tcp_store_handshake_test
}  // namespace rondo::store_protocol
