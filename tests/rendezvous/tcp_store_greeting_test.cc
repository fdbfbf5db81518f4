// Who may use a store over TCP, and which store is believed: both sides' greetings over their bytes.
#include "rendezvous/tcp_store_greeting.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace rondo::store_protocol {
namespace tcp_store_greeting_test {

using Token = std::shared_ptr<const JobToken>;

// Its nonces are 16 times 1, then 2, and so on: the same in every run.
Token CountingToken(std::string_view text) {
  return *JobToken::Make(text, "the token", [next = std::byte{0}](MutableBytes bytes) mutable {
    next = static_cast<std::byte>(std::to_integer<int>(next) + 1);
    std::fill(bytes.begin(), bytes.end(), next);
    return true;
  });
}

struct Greeting {
  std::vector<std::string> said;  // in order: hello, reply, proof, reply
  bool judged = false;            // the server has come to judging the hello
  std::optional<Error> server_says, client_says;
  bool welcome = false;  // and believed
};

using Change = std::function<void(std::size_t number, std::string&)>;  // what a message becomes on its way

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

Greeting Greet(const Token& client_token, const Token& server_token, const HelloReply& judgement = {},
               const Change& change = nullptr, std::size_t step = 10000) {
  Greeting greeting;
  const auto carry = [&](std::string message) {
    if (change) change(greeting.said.size(), message);
    greeting.said.push_back(message);
    return message;
  };
  auto client = ClientGreeting::Begin("j", client_token);
  REQUIRE(client);
  ServerGreeting server(server_token);
  std::string to_server = carry(client->hello());
  while (!to_server.empty()) {
    const auto heard = Feed(server, std::exchange(to_server, ""), step);
    std::string to_client;
    if (!heard) {
      greeting.server_says = heard.error();
      if (heard.error().code() == ErrorCode::kProtocol) return greeting;
      to_client = carry(server.Encode({.refused = heard.error()}));
    } else if (*heard == ServerGreeting::Next::kSend) {
      to_client = carry(server.challenge());
    } else if (*heard == ServerGreeting::Next::kJudge) {
      greeting.judged = true;
      CHECK(server.hello().job == "j");
      to_client = carry(server.Encode(judgement));
    }
    const auto answer = Feed(*client, to_client, step);
    if (!answer) {
      greeting.client_says = answer.error();
    } else if (*answer == ClientGreeting::Next::kSend) {
      to_server = carry(client->proof());
    } else {
      greeting.welcome = *answer == ClientGreeting::Next::kWelcome;
    }
  }
  return greeting;
}

bool Has(const std::optional<Error>& error, std::string_view part) {
  return error && error->code() == ErrorCode::kAuth && error->message().find(part) != std::string::npos;
}

TEST_CASE("Without tokens there are a hello and a reply; with the same one there is a challenge and a proof between") {
  for (const std::size_t step : {1u, 2u, 13u, 10000u}) {
    const Greeting plain = Greet(nullptr, nullptr, {}, nullptr, step);
    CHECK(plain.welcome);
    CHECK(plain.said == std::vector<std::string>{Encode(Hello{.job = "j"}), Encode(HelloReply{})});
    const Greeting proved = Greet(CountingToken("secret"), CountingToken("secret"), {}, nullptr, step);
    CHECK(proved.welcome);
    CHECK(proved.said.size() == 4);
    CHECK(proved.said[2].size() == kProofBytes);
  }
}

// docs/WIRE.md has these bytes; computed by Python's hmac module.
TEST_CASE("The example of docs/WIRE.md with a token") {
  const Greeting greeting = Greet(CountingToken("secret"), CountingToken("secret"));
  const auto hex = [](std::string_view bytes) {
    std::string text;
    for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
    return text;
  };
  const std::string nonce = hex(std::string(16, '\1'));
  REQUIRE(greeting.said.size() == 4);
  CHECK(hex(greeting.said[0]) == "524f4e444f004b5602000000010010006a" + nonce);
  CHECK(hex(greeting.said[1]) == "524f4e444f004b56020000011000" + nonce);
  CHECK(hex(greeting.said[2]) == "846a064144400caa5694d147bd4175ebd85fbf0025620d992658397e922ba54e");
  CHECK(hex(greeting.said[3]) ==
        "524f4e444f004b56020000020000"
        "e560920a46beaa0235cf75eb0cb4ba15197518bdd156cd9a7839819eb955fe0c");
}

TEST_CASE("Another token, or one on one side alone, is refused before anything is judged, in words on both sides") {
  const Greeting other = Greet(CountingToken("secret"), CountingToken("Secret"));
  CHECK(Has(other.client_says, "this process's job token (RONDO_TOKEN) is not the store's"));
  const Greeting none_here = Greet(nullptr, CountingToken("secret"));
  CHECK(Has(none_here.client_says, "the store has a job token, and this process has none"));
  const Greeting none_there = Greet(CountingToken("secret"), nullptr);
  CHECK(Has(none_there.client_says, "this process has a job token (RONDO_TOKEN), and the store has none"));
  for (const Greeting& greeting : {other, none_here, none_there}) {
    CHECK_FALSE(greeting.judged);
    CHECK_FALSE(greeting.welcome);
    CHECK(Has(greeting.server_says, "token"));
  }
}

TEST_CASE("A refusal for another reason is proved, too, and told as it is") {
  const HelloReply full{.refused = Error(ErrorCode::kResource, "the store is full")};
  const Greeting greeting = Greet(CountingToken("secret"), CountingToken("secret"), full);
  REQUIRE(greeting.client_says.has_value());
  CHECK(greeting.client_says->code() == ErrorCode::kResource);
  CHECK(greeting.said[3].size() == Encode(full).size() + kProofBytes);
}

TEST_CASE("A server that does not ask for a proof, or only claims to know the token, is not believed") {
  const auto at_once = [](std::size_t number, std::string& message) {
    if (number == 1) message = Encode(HelloReply{});
  };
  CHECK(Has(Greet(CountingToken("secret"), CountingToken("secret"), {}, at_once).client_says, "it did not ask"));
  for (const HelloReply& claim : {HelloReply{}, HelloReply{.proof = TokenProof{}}}) {
    const auto lie = [&](std::size_t number, std::string& message) {
      if (number == 3) message = Encode(claim);
    };
    const Greeting greeting = Greet(CountingToken("secret"), CountingToken("secret"), {}, lie);
    CHECK_FALSE(greeting.welcome);
    CHECK(Has(greeting.client_says, "it did not prove"));
  }
}

TEST_CASE("What was heard of one greeting is worth nothing in another one, to either side") {
  const Token of_client = CountingToken("secret"), of_server = CountingToken("secret");  // their nonces go on counting
  const Greeting first = Greet(of_client, of_server);
  REQUIRE(first.welcome);
  ServerGreeting again(of_server);
  REQUIRE(*Feed(again, first.said[0], 10000) == ServerGreeting::Next::kSend);
  const auto replayed = Feed(again, first.said[2], 10000);
  REQUIRE_FALSE(replayed);
  CHECK(replayed.error().code() == ErrorCode::kAuth);
  const Greeting lured = Greet(of_client, of_server, {}, [&](std::size_t number, std::string& message) {
    if (number == 1 || number == 3) message = first.said[number];
  });
  CHECK_FALSE(lured.welcome);
}

TEST_CASE("With any bit of any message another, nobody is welcome") {
  const std::vector<std::string> good = Greet(CountingToken("secret"), CountingToken("secret")).said;
  for (std::size_t message = 0; message < good.size(); ++message) {
    for (std::size_t bit = 0; bit < 8 * good[message].size(); ++bit) {
      CAPTURE(message);
      CAPTURE(bit);
      const Greeting greeting =
          Greet(CountingToken("secret"), CountingToken("secret"), {}, [&](std::size_t number, std::string& bytes) {
            if (number == message && bit / 8 < bytes.size())
              bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
          });
      CHECK_FALSE(greeting.welcome);
    }
  }
}

TEST_CASE("A second challenge is a broken protocol, and without random bytes there is no greeting") {
  auto client = ClientGreeting::Begin("j", CountingToken("secret"));
  const std::string challenge = Encode(HelloReply{.challenge = Nonce{}});
  REQUIRE(*Feed(*client, challenge, 10000) == ClientGreeting::Next::kSend);
  CHECK(Feed(*client, challenge, 10000).error().code() == ErrorCode::kProtocol);
  const Token dry = *JobToken::Make("secret", "", [](MutableBytes) { return false; });
  CHECK(ClientGreeting::Begin("j", dry).error().code() == ErrorCode::kResource);
  ServerGreeting server(dry);
  CHECK(Feed(server, ClientGreeting::Begin("j", CountingToken("secret"))->hello(), 10000).error().code() ==
        ErrorCode::kResource);
}

}  // namespace tcp_store_greeting_test
}  // namespace rondo::store_protocol
