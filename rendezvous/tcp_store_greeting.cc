#include "rendezvous/tcp_store_greeting.h"

#include <algorithm>
#include <optional>

namespace rondo::store_protocol {
namespace {

constexpr std::string_view kClient = "store client";
constexpr std::string_view kServer = "store server";

}  // namespace

// ---- the server ----

Result<ServerGreeting::Next> ServerGreeting::Take(std::string& bytes) {
  return challenge_.empty() ? TakeHello(bytes) : TakeProof(bytes);
}

Result<ServerGreeting::Next> ServerGreeting::TakeHello(std::string& bytes) {
  const std::string before = bytes;
  RONDO_ASSIGN(std::optional<Hello> hello, store_protocol::TakeHello(bytes));
  if (!hello) return Next::kRead;
  hello_ = *std::move(hello);
  if (hello_.version != kVersion) {
    return Fail(ErrorCode::kVersionMismatch, "the store speaks version {} of its protocol, this process version {}",
                kVersion, hello_.version);
  }
  const bool client_has_token = !hello_.nonce.empty();
  if (!token_ && !client_has_token) return Next::kJudge;
  if (!token_) return Fail(ErrorCode::kAuth, "this process has a job token (RONDO_TOKEN), and the store has none");
  if (!client_has_token) {
    return Fail(ErrorCode::kAuth, "the store has a job token, and this process has none (RONDO_TOKEN)");
  }
  RONDO_ASSIGN(const Nonce nonce, token_->DrawNonce());
  hello_bytes_ = before.substr(0, before.size() - bytes.size());
  challenge_ = store_protocol::Encode(HelloReply{.challenge = nonce});
  return Next::kSend;
}

Result<ServerGreeting::Next> ServerGreeting::TakeProof(std::string& bytes) {
  if (bytes.size() < kProofBytes) return Next::kRead;
  const std::string proof = bytes.substr(0, kProofBytes);
  bytes.erase(0, kProofBytes);
  if (!token_->Proves(AsBytes(proof), kClient, {AsBytes(hello_bytes_), AsBytes(challenge_)})) {
    return Fail(ErrorCode::kAuth, "this process's job token (RONDO_TOKEN) is not the store's");
  }
  proved_ = true;
  return Next::kJudge;
}

std::string ServerGreeting::Encode(HelloReply reply) const {
  if (!proved_) return store_protocol::Encode(reply);
  reply.proof = TokenProof{};
  std::string bytes = store_protocol::Encode(reply);
  bytes.resize(bytes.size() - kProofBytes);
  return bytes + ToText(token_->Prove(kServer, {AsBytes(hello_bytes_), AsBytes(challenge_), AsBytes(bytes)}));
}

// ---- the client ----

Result<ClientGreeting> ClientGreeting::Begin(std::string job, std::shared_ptr<const JobToken> token) {
  Hello hello{.job = std::move(job)};
  if (token) {
    RONDO_ASSIGN(const Nonce nonce, token->DrawNonce());
    hello.nonce = ToText(nonce);
  }
  return ClientGreeting(Encode(hello), std::move(token));
}

Result<ClientGreeting::Next> ClientGreeting::Take(std::string& bytes) {
  const std::string before = bytes;
  RONDO_ASSIGN(const std::optional<HelloReply> taken, TakeHelloReply(bytes));
  if (!taken) return Next::kRead;
  if (taken->challenge) {
    if (!token_) return Fail(ErrorCode::kAuth, "the store has a job token, and this process has none (RONDO_TOKEN)");
    if (!proof_.empty()) return Fail(ErrorCode::kProtocol, "it asks twice for a proof of the job's token");
    challenge_ = before.substr(0, before.size() - bytes.size());
    proof_ = ToText(token_->Prove(kClient, {AsBytes(hello_), AsBytes(challenge_)}));
    return Next::kSend;
  }
  // Without proof a refusal is just as final: whatever the reason, this store does not serve us.
  if (taken->refused && (!token_ || !taken->proof)) return Fail(*taken->refused);
  if (!token_) {
    if (taken->proof) return Fail(ErrorCode::kProtocol, "it proves a token that it was not asked for");
    return Next::kWelcome;
  }
  if (proof_.empty()) {
    return Fail(ErrorCode::kAuth, "it did not ask this process to prove the job's token (RONDO_TOKEN), so it has none");
  }
  const auto is_proved = [&] {
    const std::string_view said = std::string_view(before).substr(0, before.size() - bytes.size() - kProofBytes);
    return token_->Proves(*taken->proof, kServer, {AsBytes(hello_), AsBytes(challenge_), AsBytes(said)});
  };
  if (!taken->proof || !is_proved())
    return Fail(ErrorCode::kAuth, "it did not prove that it knows this process's job token (RONDO_TOKEN)");
  if (taken->refused) return Fail(*taken->refused);
  return Next::kWelcome;
}

}  // namespace rondo::store_protocol
