#include "transport/tcp/handshake_sides.h"

#include <utility>

namespace rondo::tcp {
namespace {

constexpr std::string_view kCaller = "tcp caller";
constexpr std::string_view kCalled = "tcp called";

// Of a proved reply: what its proof stands for.
Bytes BeforeProof(Bytes reply) { return reply.first(reply.size() - kProofBytes); }

}  // namespace

// ---- the called ----

CalledSide::CalledSide(std::shared_ptr<const JobToken> token) : token_(std::move(token)) {}

Result<CalledSide::Next> CalledSide::Feed(Bytes bytes) {
  RONDO_TRY(reader_.Feed(bytes));
  if (!reader_.complete()) return Next::kRead;
  return challenged() ? OnProof() : OnHello();
}

Result<CalledSide::Next> CalledSide::OnHello() {
  RONDO_ASSIGN(hello_, reader_.hello());
  if (!token_ && !hello_.nonce) return Next::kJudge;
  if (!token_) return Fail(ErrorCode::kAuth, "the caller has a job token, and this process has none (RONDO_TOKEN)");
  if (!hello_.nonce) {
    return Fail(ErrorCode::kAuth, "this process has a job token (RONDO_TOKEN), and the caller has none");
  }
  RONDO_ASSIGN(const Nonce nonce, token_->DrawNonce());
  hello_bytes_.assign(reader_.bytes().begin(), reader_.bytes().end());
  challenge_ = tcp::Encode(Reply{.verdict = Verdict::kProve, .nonce = nonce});
  reader_ = MessageReader(MessageReader::Kind::kProof);
  return Next::kSend;
}

Result<CalledSide::Next> CalledSide::OnProof() {
  RONDO_ASSIGN(const TokenProof proof, reader_.proof());
  if (!token_->Proves(proof, kCaller, {hello_bytes_, challenge_})) {
    return Fail(ErrorCode::kAuth, "the caller's job token is not this process's (RONDO_TOKEN)");
  }
  proved_ = true;
  return Next::kJudge;
}

std::vector<std::byte> CalledSide::Encode(Reply reply) const {
  if (!proved_) return tcp::Encode(reply);
  reply.proof = TokenProof{};
  std::vector<std::byte> bytes = tcp::Encode(reply);
  reply.proof = token_->Prove(kCalled, {hello_bytes_, challenge_, BeforeProof(bytes)});
  return tcp::Encode(reply);
}

// ---- the caller ----

Result<CallingSide> CallingSide::Begin(Hello hello, std::shared_ptr<const JobToken> token) {
  if (token) {
    RONDO_ASSIGN(hello.nonce, token->DrawNonce());
  }
  return CallingSide(Encode(hello), std::move(token));
}

Result<CallingSide::Next> CallingSide::Feed(Bytes bytes) {
  RONDO_TRY(reader_.Feed(bytes));
  if (!reader_.complete()) return Next::kRead;
  RONDO_ASSIGN(const Reply reply, reader_.reply());
  const std::vector<std::byte> said(reader_.bytes().begin(), reader_.bytes().end());
  reader_ = MessageReader(MessageReader::Kind::kReply);
  if (reply.verdict == Verdict::kProve) return Prove(said);
  RONDO_TRY(Believe(reply, said));
  reply_ = reply;
  return Next::kReply;
}

Result<CallingSide::Next> CallingSide::Prove(const std::vector<std::byte>& challenge) {
  if (!token_) return Fail(ErrorCode::kAuth, "it has a job token, and this process has none (RONDO_TOKEN)");
  if (!proof_.empty()) return Fail(ErrorCode::kProtocol, "it asks twice for a proof of the job's token");
  challenge_ = challenge;
  proof_ = Encode(token_->Prove(kCaller, {hello_bytes_, challenge_}));
  return Next::kSend;
}

Status CallingSide::Believe(const Reply& reply, Bytes said) const {
  const bool refuses_token = reply.verdict == Verdict::kRefused && reply.code == ErrorCode::kAuth && !reply.proof;
  if (refuses_token) return Fail(ErrorCode::kAuth, "it refused the connection: {}", reply.text);
  if (!token_) {
    if (reply.proof) return Fail(ErrorCode::kProtocol, "it proves a token that it was not asked for");
    return {};
  }
  if (proof_.empty()) {
    return Fail(ErrorCode::kAuth, "it did not ask this process to prove the job's token (RONDO_TOKEN), so it has none");
  }
  const bool proved =
      reply.proof && token_->Proves(*reply.proof, kCalled, {hello_bytes_, challenge_, BeforeProof(said)});
  if (proved) return {};
  return Fail(ErrorCode::kAuth, "it did not prove that it knows this process's job token (RONDO_TOKEN)");
}

}  // namespace rondo::tcp
