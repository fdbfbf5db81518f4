// Tests the mutual proof of a job token, without a protocol: which peers are accepted, and which refusal the others
// get. The messages of the protocols are tested bit by bit in transport_tcp/handshake_sides_test.cc and
// rendezvous/tcp_store_handshake_test.cc.
#include "base/handshake.h"

#include <doctest/doctest.h>

#include <string>

namespace rondo {
namespace handshake_test {

constexpr HandshakeNames kNames{
    .client_label = "test client", .server_label = "test server", .client = "the visitor", .server = kThisProcess};

std::shared_ptr<const JobToken> TokenOf(std::string_view text) { return *JobToken::Make(text, "the test's token"); }
std::shared_ptr<const JobToken> DryToken() {
  return *JobToken::Make("secret", "the test's token", [](MutableBytes) { return false; });
}

const Bytes kFirst = AsBytes("a first message");
const Bytes kChallenge = AsBytes("a challenge");
const Bytes kReply = AsBytes("a reply");

TEST_CASE("two ends with one token prove it to each other") {
  ServerProof server(kNames, TokenOf("secret"));
  ClientProof client(kNames, TokenOf("secret"));
  const auto client_nonce = client.Begin();
  REQUIRE(client_nonce);
  REQUIRE(*client_nonce);
  const auto server_nonce = server.Begin(/*client_has_token=*/true);
  REQUIRE(server_nonce);
  REQUIRE(*server_nonce);
  CHECK(**client_nonce != **server_nonce);
  server.Challenge(kFirst, kChallenge);
  CHECK(server.challenged());
  const auto proof = client.Answer(kFirst, kChallenge);
  REQUIRE(proof);
  CHECK_FALSE(server.proved());
  REQUIRE(server.Check(*proof));
  CHECK(server.proved());
  CHECK(client.Believe(kReply, server.Prove(kReply)));
  CHECK(client.Believe(AsBytes("another reply"), server.Prove(kReply)).error().code() == ErrorCode::kAuth);
}

TEST_CASE("without tokens there is nothing to prove, and a proof is not believed") {
  ServerProof server(kNames, nullptr);
  ClientProof client(kNames, nullptr);
  CHECK_FALSE(client.has_token());
  CHECK(*client.Begin() == std::nullopt);
  CHECK(*server.Begin(/*client_has_token=*/false) == std::nullopt);
  CHECK_FALSE(server.challenged());
  CHECK(client.Believe(kReply, std::nullopt));
  CHECK(client.Believe(kReply, TokenProof{}).error().code() == ErrorCode::kProtocol);
}

TEST_CASE("a token on one side alone is refused, and the refusal says on which") {
  const auto message = [](const auto& result) { return result.error().message(); };
  CHECK(message(ServerProof(kNames, TokenOf("secret")).Begin(false)) ==
        "this process has a job token (RONDO_TOKEN), and the visitor has none");
  CHECK(message(ServerProof(kNames, nullptr).Begin(true)) ==
        "the visitor has a job token, and this process has none (RONDO_TOKEN)");
  CHECK(ClientProof(kNames, nullptr).Answer(kFirst, kChallenge).error().code() == ErrorCode::kAuth);
  // A server that does not ask for a proof has no token, so the client must not believe it.
  CHECK(ClientProof(kNames, TokenOf("secret")).Believe(kReply, std::nullopt).error().code() == ErrorCode::kAuth);
  CHECK(ClientProof(kNames, TokenOf("secret")).Believe(kReply, TokenProof{}).error().code() == ErrorCode::kAuth);
}

TEST_CASE("another token, other messages or the other side's proof are refused") {
  const auto checks = [](Bytes proof) {
    ServerProof server(kNames, TokenOf("secret"));
    server.Challenge(kFirst, kChallenge);
    return server.Check(proof);
  };
  const auto answer = [](std::string_view token, Bytes first, Bytes challenge) {
    return *ClientProof(kNames, TokenOf(token)).Answer(first, challenge);
  };
  CHECK(checks(answer("secret", kFirst, kChallenge)));
  const auto refused = checks(answer("Secret", kFirst, kChallenge));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message() == "the visitor and this process (RONDO_TOKEN) have different job tokens");
  CHECK_FALSE(checks(answer("secret", kReply, kChallenge)));
  CHECK_FALSE(checks(answer("secret", kFirst, kReply)));
  ServerProof server(kNames, TokenOf("secret"));
  server.Challenge(kFirst, kChallenge);
  CHECK_FALSE(checks(server.Prove({})));
}

TEST_CASE("a second challenge and a dry source of random bytes are errors") {
  ClientProof client(kNames, TokenOf("secret"));
  REQUIRE(client.Answer(kFirst, kChallenge));
  CHECK(client.Answer(kFirst, kChallenge).error().code() == ErrorCode::kProtocol);
  CHECK(ClientProof(kNames, DryToken()).Begin().error().code() == ErrorCode::kResource);
  CHECK(ServerProof(kNames, DryToken()).Begin(true).error().code() == ErrorCode::kResource);
}

}  // namespace handshake_test
}  // namespace rondo
