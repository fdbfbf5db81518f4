#include "base/handshake.h"

#include <utility>

namespace rondo {
namespace {

// The variable to name in the message if `name` is this process; "" for the other end. The user who reads the message
// can set the variable only for this process.
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
    return Fail(ErrorCode::kAuth, "{}{} and {}{} have different job tokens", names_.client, Variable(names_.client),
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
  if (!token_) return Fail(OneSided("the other side", kThisProcess));
  if (!challenge_.empty()) return Fail(ErrorCode::kProtocol, "the other side asked twice for a proof of the job token");
  first_message_.assign(first_message.begin(), first_message.end());
  challenge_.assign(challenge.begin(), challenge.end());
  return token_->Prove(names_.client_label, {first_message_, challenge_});
}

Status ClientProof::Believe(Bytes reply, const std::optional<TokenProof>& proof) const {
  if (!token_) {
    if (proof)
      return Fail(ErrorCode::kProtocol,
                  "the other side sent a proof of the job token, but this process did not ask for one");
    return {};
  }
  if (challenge_.empty())
    return Fail(ErrorCode::kAuth,
                "the other side did not ask for a proof of the job token (RONDO_TOKEN), so that side has no token");
  if (proof && token_->Proves(*proof, names_.server_label, {first_message_, challenge_, reply})) return {};
  return Fail(ErrorCode::kAuth, "the other side did not prove that it knows this process's job token (RONDO_TOKEN)");
}

}  // namespace rondo
