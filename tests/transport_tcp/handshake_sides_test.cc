// Tests which clients and servers the job token authenticates. Both sides of a handshake exchange bytes without a
// socket.
#include "transport/tcp/handshake_sides.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace rondo::tcp {
namespace handshake_sides_test {

using Message = std::vector<std::byte>;
using Token = std::shared_ptr<const JobToken>;

// A token whose nonces are 16 bytes of value 1, then 16 bytes of value 2, and so on. So they are the same in every run.
Token TokenOf(std::string_view text) {
  auto token = JobToken::Make(text, "the token", [next = std::byte{0}](MutableBytes bytes) mutable {
    next = static_cast<std::byte>(std::to_integer<int>(next) + 1);
    std::fill(bytes.begin(), bytes.end(), next);
    return true;
  });
  REQUIRE(token);
  return *token;
}

Hello SomeHello() {
  Hello hello;
  hello.from = 1;
  hello.to = 0;
  hello.job = "job";
  hello.from_instance = "caller";
  hello.to_instance = "called";
  return hello;
}

// All messages of both sides, and the result on each side.
struct Handshake {
  std::vector<Message> said;         // the messages in order: hello, reply, proof, reply ...
  std::optional<Error> server_says;  // why the server refuses
  std::optional<Error> client_says;  // why the client gives up
  bool judged = false;               // true: the server had all messages that it needs to judge the hello
  std::vector<Reply> replies;        // replies that the client accepted
};

template <typename Side>
Result<typename Side::Next> FeedAll(Side& side, const Message& message, std::size_t step) {
  Result<typename Side::Next> next = Side::Next::kRead;
  for (Bytes rest = message; !rest.empty() && next && *next == Side::Next::kRead;) {
    const Bytes part = rest.first(std::min({step, rest.size(), side.wanted()}));
    next = side.Feed(part);
    rest = rest.subspan(part.size());
  }
  return next;
}

using Change = std::function<void(std::size_t number, Message&)>;  // changes a message in transit

// Runs a handshake in which the server replies kHeld and then accepts.
Handshake Shake(const Token& client_token, const Token& server_token, const Change& change = nullptr,
                std::size_t step = 1000) {
  Handshake shake;
  const auto carry = [&](Message message) {
    if (change) change(shake.said.size(), message);
    shake.said.push_back(message);
    return message;
  };
  auto client = ClientHandshake::Begin(SomeHello(), client_token);
  REQUIRE(client);
  ServerHandshake server(server_token);
  std::vector<Message> to_server{carry(client->hello_bytes())}, to_client;
  while (!to_server.empty() || !to_client.empty()) {
    if (!to_server.empty()) {
      const auto next = FeedAll(server, to_server.front(), step);
      to_server.erase(to_server.begin());
      if (!next) {
        shake.server_says = next.error();
        to_client.push_back(carry(Encode(Reply{Verdict::kRefused, next.error().code(), next.error().message()})));
      } else if (*next == ServerHandshake::Next::kSend) {
        to_client.push_back(carry(server.challenge()));
      } else if (*next == ServerHandshake::Next::kJudge) {
        shake.judged = true;
        CHECK(server.hello().job == "job");
        to_client.push_back(carry(server.Encode({Verdict::kHeld, ErrorCode::kNotReady, ""})));
        to_client.push_back(carry(server.Encode({})));
      }
      continue;
    }
    const auto next = FeedAll(*client, to_client.front(), step);
    to_client.erase(to_client.begin());
    if (!next) {
      shake.client_says = next.error();
      return shake;
    }
    if (*next == ClientHandshake::Next::kSend) to_server.push_back(carry(client->proof()));
    if (*next == ClientHandshake::Next::kReply) shake.replies.push_back(client->reply());
  }
  return shake;
}

bool Has(const std::optional<Error>& error, std::string_view part) {
  return error && error->code() == ErrorCode::kAuth && error->message().find(part) != std::string::npos;
}

bool EndedWell(const Handshake& shake) {
  return shake.judged && shake.replies.size() == 2 && shake.replies[0].verdict == Verdict::kHeld &&
         shake.replies[1].verdict == Verdict::kAccepted;
}

TEST_CASE("without tokens there are a hello and replies alone, with the bytes of a hello and replies") {
  const Handshake shake = Shake(nullptr, nullptr);
  CHECK(EndedWell(shake));
  REQUIRE(shake.said.size() == 3);
  CHECK(shake.said[0] == Encode(SomeHello()));
  CHECK(shake.said[2] == Encode(Reply{}));
}

TEST_CASE("who knows the same token is let in and believed, however finely the bytes are cut") {
  for (std::size_t step : {1u, 2u, 11u, 12u, 13u, 1000u}) {
    const Handshake shake = Shake(TokenOf("secret"), TokenOf("secret"), nullptr, step);
    CHECK(EndedWell(shake));
    CHECK(shake.said.size() == 5);
    CHECK(shake.replies[1].proof.has_value());
  }
}

// docs/WIRE.md contains these bytes; Python's hmac module computed them.
TEST_CASE("a handshake with a token has exactly the bytes that the format says") {
  Hello hello;
  hello.from = 1;
  hello.to = 0;
  hello.communicator = 1;
  hello.job = "j";
  hello.from_instance = "b";
  hello.to_instance = "a";
  const auto hex = [](Bytes bytes) {
    std::string text;
    for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
    return text;
  };
  const std::string nonce = hex(std::vector<std::byte>(16, std::byte{1}));
  auto client = ClientHandshake::Begin(hello, TokenOf("secret"));
  ServerHandshake server(TokenOf("secret"));
  CHECK(hex(client->hello_bytes()) ==
        "524f4e444f746370"
        "0200"
        "3a00"
        "010100010000000000000000"
        "0100000000000000"
        "0100000000000000"
        "0000000000000000"
        "016a"
        "0162"
        "0161" +
            nonce);
  REQUIRE(*FeedAll(server, client->hello_bytes(), 1000) == ServerHandshake::Next::kSend);
  CHECK(hex(server.challenge()) ==
        "524f4e444f61636b"
        "0200"
        "1400"
        "051a0000" +
            nonce);
  REQUIRE(*FeedAll(*client, server.challenge(), 1000) == ClientHandshake::Next::kSend);
  CHECK(hex(client->proof()) ==
        "524f4e444f707266"
        "0200"
        "2000"
        "43f39e5488a4ff9135ad5e72d7d98ea0556b1ad90f83756bf1dc1b90dbc52212");
  REQUIRE(*FeedAll(server, client->proof(), 1000) == ServerHandshake::Next::kJudge);
  CHECK(hex(server.Encode({})) ==
        "524f4e444f61636b"
        "0200"
        "2400"
        "011a0000"
        "bb9e1497b5d0c2848cec06bc8ed8c1982fdb7b57bdb2cded60a1bc5d586f8900");
}

TEST_CASE("another token is refused before anything is judged, and the client gets kAuth") {
  const Handshake shake = Shake(TokenOf("secret"), TokenOf("Secret"));
  CHECK_FALSE(shake.judged);
  CHECK(Has(shake.server_says, "the client and this process (RONDO_TOKEN) have different job tokens"));
  CHECK(Has(shake.client_says, "it refused the connection: the client and this process (RONDO_TOKEN) have"));
}

TEST_CASE("where one side alone has a token, both learn which") {
  const Handshake none_here = Shake(nullptr, TokenOf("secret"));
  CHECK_FALSE(none_here.judged);
  CHECK(Has(none_here.server_says, "this process has a job token (RONDO_TOKEN), and the client has none"));
  CHECK(Has(none_here.client_says, "it refused the connection: this process has a job token"));
  const Handshake none_there = Shake(TokenOf("secret"), nullptr);
  CHECK_FALSE(none_there.judged);
  CHECK(Has(none_there.server_says, "the client has a job token, and this process has none"));
  CHECK(Has(none_there.client_says, "the client has a job token, and this process has none"));
}

TEST_CASE("a server that hides its lack of a token, or only claims to know one, is not believed") {
  // The client has a token. The server says that it accepts the client, either at once or after asking for a proof, but
  // it does not prove that it knows the token.
  const auto at_once = [](std::size_t number, Message& message) {
    if (number == 1) message = Encode(Reply{});
  };
  CHECK(
      Has(Shake(TokenOf("secret"), TokenOf("secret"), at_once).client_says, "the other side did not ask for a proof"));
  for (const Reply& claim : {Reply{}, Reply{.proof = TokenProof{}}, Reply{Verdict::kHeld, ErrorCode::kNotReady, ""},
                             Reply{Verdict::kRefused, ErrorCode::kStale, "another job"}}) {
    const Handshake shake = Shake(TokenOf("secret"), TokenOf("secret"), [&](std::size_t number, Message& message) {
      if (number == 3) message = Encode(claim);
    });
    CHECK(shake.replies.empty());
    CHECK(Has(shake.client_says, "the other side did not prove that it knows"));
  }
}

TEST_CASE("the messages of one handshake are worth nothing in another one, to either side") {
  // All handshakes of this test share these objects, so that each handshake uses new nonces.
  const Token client = TokenOf("secret"), server = TokenOf("secret");
  const Handshake first = Shake(client, server);
  REQUIRE(EndedWell(first));
  // An attacker replays the client's messages to the server.
  ServerHandshake again(server);
  REQUIRE(*FeedAll(again, first.said[0], 1000) == ServerHandshake::Next::kSend);
  CHECK(again.challenge() != first.said[1]);
  const auto replayed = FeedAll(again, first.said[2], 1000);
  REQUIRE_FALSE(replayed);
  CHECK(replayed.error().code() == ErrorCode::kAuth);
  // An attacker replays the server's replies in another handshake, in which the client's nonce differs.
  const Handshake lured = Shake(client, server, [&](std::size_t number, Message& message) {
    if (number == 1 || number >= 3) message = first.said[number];
  });
  CHECK(lured.replies.empty());
  CHECK(lured.client_says.has_value());
}

TEST_CASE("a client's proof is not one of the server, so a message cannot be sent back to its sender") {
  // The attacker has no token. It answers with the client's own hello and proof.
  const Token token = TokenOf("secret");
  auto client = ClientHandshake::Begin(SomeHello(), token);
  REQUIRE(client);
  REQUIRE(*FeedAll(*client, Encode(Reply{.verdict = Verdict::kProve, .nonce = Nonce{}}), 1000) ==
          ClientHandshake::Next::kSend);
  MessageReader proof(MessageReader::Kind::kProof);
  REQUIRE(proof.Feed(Bytes(client->proof()).first(kPreambleBytes)));
  REQUIRE(proof.Feed(Bytes(client->proof()).subspan(kPreambleBytes)));
  const auto next = FeedAll(*client, Encode(Reply{.proof = *proof.proof()}), 1000);
  REQUIRE_FALSE(next);
  CHECK(next.error().code() == ErrorCode::kAuth);
}

TEST_CASE("a second request for a proof is a broken protocol, not another chance") {
  auto client = ClientHandshake::Begin(SomeHello(), TokenOf("secret"));
  const Message request = Encode(Reply{.verdict = Verdict::kProve, .nonce = Nonce{}});
  REQUIRE(*FeedAll(*client, request, 1000) == ClientHandshake::Next::kSend);
  const auto next = FeedAll(*client, request, 1000);
  REQUIRE_FALSE(next);
  CHECK(next.error().code() == ErrorCode::kProtocol);
}

TEST_CASE("with any bit of any message another, no handshake ends well") {
  const std::vector<Message> good = Shake(TokenOf("secret"), TokenOf("secret")).said;
  for (std::size_t message = 0; message < good.size(); ++message) {
    for (std::size_t bit = 0; bit < 8 * good[message].size(); ++bit) {
      CAPTURE(message);
      CAPTURE(bit);
      const Handshake shake = Shake(TokenOf("secret"), TokenOf("secret"), [&](std::size_t number, Message& bytes) {
        if (number == message && bit / 8 < bytes.size()) bytes[bit / 8] ^= std::byte{1} << bit % 8;
      });
      CHECK_FALSE(EndedWell(shake));
      if (message < 3) CHECK(shake.replies.empty());
    }
  }
}

TEST_CASE("a message cut short makes its reader wait, and says nothing") {
  const std::vector<Message> good = Shake(TokenOf("secret"), TokenOf("secret")).said;
  for (std::size_t length = 1; length < good[0].size(); ++length) {
    ServerHandshake server(TokenOf("secret"));
    const auto next =
        FeedAll(server, Message(good[0].begin(), good[0].begin() + static_cast<std::ptrdiff_t>(length)), 7);
    REQUIRE(next);
    CHECK(*next == ServerHandshake::Next::kRead);
    CHECK_FALSE(server.challenged());
  }
  for (std::size_t length = 1; length < good[2].size(); ++length) {
    ServerHandshake server(TokenOf("secret"));
    REQUIRE(*FeedAll(server, good[0], 1000) == ServerHandshake::Next::kSend);
    const auto next =
        FeedAll(server, Message(good[2].begin(), good[2].begin() + static_cast<std::ptrdiff_t>(length)), 7);
    REQUIRE(next);
    CHECK(*next == ServerHandshake::Next::kRead);
  }
}

TEST_CASE("without random bytes no handshake begins or is answered") {
  const Token dry = *JobToken::Make("secret", "", [](MutableBytes) { return false; });
  CHECK(ClientHandshake::Begin(SomeHello(), dry).error().code() == ErrorCode::kResource);
  ServerHandshake server(dry);
  const auto next = FeedAll(server, ClientHandshake::Begin(SomeHello(), TokenOf("secret"))->hello_bytes(), 1000);
  REQUIRE_FALSE(next);
  CHECK(next.error().code() == ErrorCode::kResource);
}

}  // namespace handshake_sides_test
}  // namespace rondo::tcp
