#include "rendezvous/tcp_store_handshake.h"

#include <optional>

namespace rondo::store_protocol {
namespace {

constexpr HandshakeNames kNames{
    .client_label = "store client", .server_label = "store server", .client = kThisProcess, .server = "the store"};

}  // namespace

// ---- the server ----

ServerHandshake::ServerHandshake(std::shared_ptr<const JobToken> token) : proof_(kNames, std::move(token)) {}

Result<ServerHandshake::Next> ServerHandshake::Take(std::string& bytes) {
  return proof_.challenged() ? TakeProof(bytes) : TakeHello(bytes);
}

Result<ServerHandshake::Next> ServerHandshake::TakeHello(std::string& bytes) {
  const std::string before = bytes;
  RONDO_ASSIGN(std::optional<Hello> hello, store_protocol::TakeHello(bytes));
  if (!hello) return Next::kRead;
  hello_ = *std::move(hello);
  if (hello_.version != kVersion) {
    return Fail(ErrorCode::kVersionMismatch,
                "the store speaks version {} of the store's protocol, but this process speaks version {}", kVersion,
                hello_.version);
  }
  RONDO_ASSIGN(const std::optional<Nonce> nonce, proof_.Begin(!hello_.nonce.empty()));
  if (!nonce) return Next::kJudge;
  challenge_ = store_protocol::Encode(HelloReply{.challenge = nonce});
  proof_.Challenge(AsBytes(before).first(before.size() - bytes.size()), AsBytes(challenge_));
  return Next::kSend;
}

Result<ServerHandshake::Next> ServerHandshake::TakeProof(std::string& bytes) {
  if (bytes.size() < kProofBytes) return Next::kRead;
  const std::string proof = bytes.substr(0, kProofBytes);
  bytes.erase(0, kProofBytes);
  RONDO_TRY(proof_.Check(AsBytes(proof)));
  return Next::kJudge;
}

std::string ServerHandshake::Encode(HelloReply reply) const {
  if (!proof_.proved()) return store_protocol::Encode(reply);
  reply.proof = TokenProof{};
  std::string bytes = store_protocol::Encode(reply);
  bytes.resize(bytes.size() - kProofBytes);
  return bytes + ToText(proof_.Prove(AsBytes(bytes)));
}

// ---- the client ----

Result<ClientHandshake> ClientHandshake::Begin(std::string job, std::shared_ptr<const JobToken> token) {
  Hello hello{.job = std::move(job)};
  ClientProof proof(kNames, std::move(token));
  RONDO_ASSIGN(const std::optional<Nonce> nonce, proof.Begin());
  if (nonce) hello.nonce = ToText(*nonce);
  return ClientHandshake(Encode(hello), std::move(proof));
}

Result<ClientHandshake::Next> ClientHandshake::Take(std::string& bytes) {
  const std::string before = bytes;
  RONDO_ASSIGN(const std::optional<HelloReply> taken, TakeHelloReply(bytes));
  if (!taken) return Next::kRead;
  const Bytes reply = AsBytes(before).first(before.size() - bytes.size());
  if (taken->challenge) {
    RONDO_ASSIGN(const TokenProof proof, client_.Answer(AsBytes(hello_), reply));
    proof_ = ToText(proof);
    return Next::kSend;
  }
  // A refusal ends the handshake even if the server has not proved the token, because a server that refuses does not
  // serve this client in any case.
  if (taken->refused && !(client_.has_token() && taken->proof)) return Fail(*taken->refused);
  RONDO_TRY(client_.Believe(taken->proof ? reply.first(reply.size() - kProofBytes) : reply, taken->proof));
  if (taken->refused) return Fail(*taken->refused);
  return Next::kWelcome;
}

}  // namespace rondo::store_protocol
