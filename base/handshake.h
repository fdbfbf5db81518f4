// The mutual proof of a job's token over a new connection. Peers (transport/tcp) and the client and server of a store
// (rendezvous) exchange different messages, but prove the token in the same order:
//
//   client -> server   its first message      with a nonce of the client, if it has a token
//   server -> client   a challenge            with a nonce of the server; only if both have a token
//   client -> server   a proof                over both messages: the client knows the token
//   server -> client   replies, with proofs   over both messages and the reply: the server knows the token too
//
// If neither side has a token there is no challenge and no proof. If only one side has a token, or the tokens differ,
// both sides get kAuth. docs/SECURITY.md says what this protects against.
//
// Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/access.h"
#include "base/bytes.h"
#include "base/result.h"

namespace rondo {

// The names that one protocol uses. The labels are part of the protocol and differ between protocols, so that a proof
// made for one protocol is invalid in another. `client` and `server` name the two ends in error messages. All four
// texts must outlive the handshakes.
struct HandshakeNames {
  std::string_view client_label;
  std::string_view server_label;
  // One of `client` and `server` must be kThisProcess: the end whose users read the server's refusals.
  std::string_view client;
  std::string_view server;
};
inline constexpr std::string_view kThisProcess = "this process";

class ServerProof {
 public:
  // `token` is null if this process has no token.
  ServerProof(const HandshakeNames& names, std::shared_ptr<const JobToken> token)
      : names_(names), token_(std::move(token)) {}

  // Call it when the client's first message has arrived. Returns the nonce for a challenge; nullopt: neither side has a
  // token. kAuth and kResource (no random bytes): refuse the client with this error's message.
  Result<std::optional<Nonce>> Begin(bool client_has_token) const;
  // Stores both messages. They must be exactly as they cross the wire.
  void Challenge(Bytes first_message, Bytes challenge);
  bool challenged() const { return !challenge_.empty(); }
  // Checks the client's answer to the challenge. kAuth: refuse the client with this error's message. REQUIRES:
  // challenged().
  Status Check(Bytes proof);
  bool proved() const { return proved_; }
  // The proof for a reply; `reply` is the part of the reply that precedes the proof. REQUIRES: proved().
  TokenProof Prove(Bytes reply) const;

 private:
  HandshakeNames names_;
  std::shared_ptr<const JobToken> token_;
  std::vector<std::byte> first_message_;
  std::vector<std::byte> challenge_;  // empty: no challenge was sent
  bool proved_ = false;
};

class ClientProof {
 public:
  // `token` is null if this process has no token.
  ClientProof(const HandshakeNames& names, std::shared_ptr<const JobToken> token)
      : names_(names), token_(std::move(token)) {}

  bool has_token() const { return token_ != nullptr; }
  // The nonce for the first message. nullopt: this process has no token. kResource: no random bytes.
  Result<std::optional<Nonce>> Begin() const;
  // The proof that answers a challenge; both messages must be exactly as they cross the wire. kAuth: this process has
  // no token. kProtocol: this is the second challenge.
  Result<TokenProof> Answer(Bytes first_message, Bytes challenge);
  // Returns an error if the reply must not be believed. `reply` is the part of the reply that precedes its proof.
  // kAuth: the server's token differs from this process's token, or the server has none. kProtocol: the server proves a
  // token although this process has none.
  Status Believe(Bytes reply, const std::optional<TokenProof>& proof) const;

 private:
  HandshakeNames names_;
  std::shared_ptr<const JobToken> token_;
  std::vector<std::byte> first_message_;
  std::vector<std::byte> challenge_;  // empty: no challenge was answered
};

}  // namespace rondo
