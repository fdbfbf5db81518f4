#include "transport/tcp/handshake_sides.h"

#include <utility>

namespace rondo::tcp {
namespace {

constexpr HandshakeNames kNames{
    .client_label = "tcp caller", .server_label = "tcp called", .client = "the client", .server = kThisProcess};

// The bytes of a reply before its proof.
Bytes BeforeProof(Bytes reply) { return reply.first(reply.size() - kProofBytes); }

}  // namespace

// ---- the server ----

ServerHandshake::ServerHandshake(std::shared_ptr<const JobToken> token) : proof_(kNames, std::move(token)) {}

Result<ServerHandshake::Next> ServerHandshake::Feed(Bytes bytes) {
  RONDO_TRY(reader_.Feed(bytes));
  if (!reader_.complete()) return Next::kRead;
  return challenged() ? OnProof() : OnHello();
}

Result<ServerHandshake::Next> ServerHandshake::OnHello() {
  RONDO_ASSIGN(hello_, reader_.hello());
  RONDO_ASSIGN(const std::optional<Nonce> nonce, proof_.Begin(hello_.nonce.has_value()));
  if (!nonce) return Next::kJudge;
  challenge_ = tcp::Encode(Reply{.verdict = Verdict::kProve, .nonce = nonce});
  proof_.Challenge(reader_.bytes(), challenge_);
  reader_ = MessageReader(MessageReader::Kind::kProof);
  return Next::kSend;
}

Result<ServerHandshake::Next> ServerHandshake::OnProof() {
  RONDO_ASSIGN(const TokenProof proof, reader_.proof());
  RONDO_TRY(proof_.Check(proof));
  return Next::kJudge;
}

std::vector<std::byte> ServerHandshake::Encode(Reply reply) const {
  if (!proof_.proved()) return tcp::Encode(reply);
  reply.proof = TokenProof{};
  const std::vector<std::byte> bytes = tcp::Encode(reply);
  reply.proof = proof_.Prove(BeforeProof(bytes));
  return tcp::Encode(reply);
}

// ---- the client ----

Result<ClientHandshake> ClientHandshake::Begin(Hello hello, std::shared_ptr<const JobToken> token) {
  ClientProof proof(kNames, std::move(token));
  RONDO_ASSIGN(hello.nonce, proof.Begin());
  return ClientHandshake(Encode(hello), std::move(proof));
}

Result<ClientHandshake::Next> ClientHandshake::Feed(Bytes bytes) {
  RONDO_TRY(reader_.Feed(bytes));
  if (!reader_.complete()) return Next::kRead;
  RONDO_ASSIGN(Reply reply, reader_.reply());
  const std::vector<std::byte> message(reader_.bytes().begin(), reader_.bytes().end());
  reader_ = MessageReader(MessageReader::Kind::kReply);
  if (reply.verdict == Verdict::kProve) {
    RONDO_ASSIGN(const TokenProof proof, client_.Answer(hello_bytes_, message));
    proof_ = Encode(proof);
    return Next::kSend;
  }
  const bool refuses_token = reply.verdict == Verdict::kRefused && reply.code == ErrorCode::kAuth && !reply.proof;
  if (refuses_token) return Fail(ErrorCode::kAuth, "it refused the connection: {}", reply.text);
  RONDO_TRY(client_.Believe(reply.proof ? BeforeProof(message) : message, reply.proof));
  reply_ = std::move(reply);
  return Next::kReply;
}

}  // namespace rondo::tcp
