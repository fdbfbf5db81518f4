#include "base/handshake.h"

#include <utility>

namespace rondo {
namespace {

// Names the variable next to the process in which a user can set it.
std::string_view Variable(std::string_view name) { return name == kThisProcess ? " (RONDO_TOKEN)" : ""; }

Error OneSided(std::string_view with, std::string_view without) {
  return {ErrorCode::kAuth,
          fmt::format("{} has a job token{}, and {} has none{}", with, Variable(with), without, Variable(without))};
}

}  // namespace

// ---- the server ----

Result<std::optional<Nonce>> ServerProof::Begin(bool client_has_token) const {
  if (!token_ && !client_has_token) return std::nullopt;
  if (!token_) return Fail(OneSided(names_.client, names_.server));
  if (!client_has_token) return Fail(OneSided(names_.server, names_.client));
  return token_->DrawNonce();
}

void ServerProof::Challenge(Bytes first_message, Bytes challenge) {
  first_message_.assign(first_message.begin(), first_message.end());
  challenge_.assign(challenge.begin(), challenge.end());
}

Status ServerProof::Check(Bytes proof) {
  if (!token_->Proves(proof, names_.client_label, {first_message_, challenge_}))
    return Fail(ErrorCode::kAuth, "{}'s job token{} is not {}'s{}", names_.client, Variable(names_.client),
                names_.server, Variable(names_.server));
  proved_ = true;
  return {};
}

TokenProof ServerProof::Prove(Bytes reply) const {
  return token_->Prove(names_.server_label, {first_message_, challenge_, reply});
}

// ---- the client ----

Result<std::optional<Nonce>> ClientProof::Begin() const {
  if (!token_) return std::nullopt;
  return token_->DrawNonce();
}

Result<TokenProof> ClientProof::Answer(Bytes first_message, Bytes challenge) {
  if (!token_) return Fail(OneSided("it", kThisProcess));
  if (!challenge_.empty()) return Fail(ErrorCode::kProtocol, "it asks twice for a proof of the job's token");
  first_message_.assign(first_message.begin(), first_message.end());
  challenge_.assign(challenge.begin(), challenge.end());
  return token_->Prove(names_.client_label, {first_message_, challenge_});
}

Status ClientProof::Believe(Bytes reply, const std::optional<TokenProof>& proof) const {
  if (!token_) {
    if (proof) return Fail(ErrorCode::kProtocol, "it proves a token that it was not asked for");
    return {};
  }
  if (challenge_.empty())
    return Fail(ErrorCode::kAuth, "it did not ask this process to prove the job's token (RONDO_TOKEN), so it has none");
  if (proof && token_->Proves(*proof, names_.server_label, {first_message_, challenge_, reply})) return {};
  return Fail(ErrorCode::kAuth, "it did not prove that it knows this process's job token (RONDO_TOKEN)");
}

}  // namespace rondo
