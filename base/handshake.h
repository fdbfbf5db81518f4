// The mutual proof of a job's token over a new connection. What peers (transport/tcp) and a store's client and server
// (rendezvous) say to each other differs; who proves what to whom, and in which order, is the same:
//
//   client -> server   its first message      with a nonce of the client's, where it has a token
//   server -> client   a challenge            with a nonce of the server's; only if both have a token
//   client -> server   a proof                over these two: it knows the token
//   server -> client   its replies, proved    over both and what precedes the proof: so does the server
//
// Where neither has a token there is no challenge and no proof. Where one side has one and the other has not, and where
// the tokens differ, both get kAuth. docs/SECURITY.md says what this is worth.
//
// Thread rule: one-thread objects.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/access.h"
#include "base/bytes.h"
#include "base/result.h"

namespace rondo {

// What sets the proofs of one protocol apart from those of another, and what its ends are called in refusals. Labels
// are part of the protocol; all four outlive their handshakes.
struct HandshakeNames {
  std::string_view client_label;
  std::string_view server_label;
  // One of them is kThisProcess, for the reader of the server's refusals.
  std::string_view client;
  std::string_view server;
};
inline constexpr std::string_view kThisProcess = "this process";

class ServerProof {
 public:
  // `token` null: this process has none.
  ServerProof(const HandshakeNames& names, std::shared_ptr<const JobToken> token)
      : names_(names), token_(std::move(token)) {}

  // The client's first message has come. Gives the nonce for a challenge; nullopt: neither side has a token. kAuth and
  // kResource (no random bytes): refuse the client in these words.
  Result<std::optional<Nonce>> Begin(bool client_has_token) const;
  // The two messages as they go over the wire.
  void Challenge(Bytes first_message, Bytes challenge);
  bool challenged() const { return !challenge_.empty(); }
  // The client's answer to the challenge. kAuth: refuse it in these words. REQUIRES: challenged().
  Status Check(Bytes proof);
  bool proved() const { return proved_; }
  // Of a reply, as far as it precedes the proof. REQUIRES: proved().
  TokenProof Prove(Bytes reply) const;

 private:
  HandshakeNames names_;
  std::shared_ptr<const JobToken> token_;
  std::vector<std::byte> first_message_;
  std::vector<std::byte> challenge_;  // empty: none was given
  bool proved_ = false;
};

class ClientProof {
 public:
  // `token` null: this process has none.
  ClientProof(const HandshakeNames& names, std::shared_ptr<const JobToken> token)
      : names_(names), token_(std::move(token)) {}

  bool has_token() const { return token_ != nullptr; }
  // The nonce for the first message; nullopt: this process has no token. kResource: no random bytes.
  Result<std::optional<Nonce>> Begin() const;
  // The answer to a challenge; the two messages as they go over the wire. kAuth: this process has no token. kProtocol:
  // this is the second challenge.
  Result<TokenProof> Answer(Bytes first_message, Bytes challenge);
  // Whether a reply is to be believed: `reply` as far as it precedes its proof. kAuth: the server does not know this
  // process's token, or has none. kProtocol: it proves what it was not asked for.
  Status Believe(Bytes reply, const std::optional<TokenProof>& proof) const;

 private:
  HandshakeNames names_;
  std::shared_ptr<const JobToken> token_;
  std::vector<std::byte> first_message_;
  std::vector<std::byte> challenge_;  // empty: none was answered
};

}  // namespace rondo
