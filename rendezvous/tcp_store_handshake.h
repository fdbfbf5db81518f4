// The handshake between a store's client and server. The classes here enforce the order of the messages. They consume
// and produce bytes and use no sockets.
//
//   client -> server   hello                 with the client's nonce, if the client has a token
//   server -> client   challenge             with the server's nonce; only if both have a token
//   client -> server   proof
//   server -> client   hello reply           with the server's proof, if there was a challenge
//
// base/handshake.h says what each side proves. A server with a token answers no request before the client has proved
// the token. A client with a token accepts the server only after the server has proved the token. Layout: docs/WIRE.md,
// "Store protocol".
//
// Thread rule: one thread at a time for each object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/access.h"
#include "base/handshake.h"
#include "base/result.h"
#include "rendezvous/tcp_store_protocol.h"

namespace rondo::store_protocol {

class ServerHandshake {
 public:
  // `token` null: this server has none.
  explicit ServerHandshake(std::shared_ptr<const JobToken> token);

  enum class Next : std::uint8_t {
    kRead,   // more bytes are needed
    kSend,   // send challenge(), then call Take again
    kJudge,  // version and token are right; the caller checks the rest of hello()
  };
  // Consumes a complete message from the front of the received bytes. kProtocol: the bytes are not from a store client;
  // close without an answer. kVersionMismatch, kAuth, kResource (no random bytes): refuse the client with this error.
  // REQUIRES: no earlier call gave an error or kJudge.
  Result<Next> Take(std::string& bytes);

  const std::string& challenge() const { return challenge_; }
  const Hello& hello() const { return hello_; }
  // Encodes the hello reply for this client, with the server's proof if the client has proved the token.
  std::string Encode(HelloReply reply) const;

 private:
  Result<Next> TakeHello(std::string& bytes);
  Result<Next> TakeProof(std::string& bytes);

  ServerProof proof_;
  Hello hello_;
  std::string challenge_;  // empty: no challenge was sent
};

class ClientHandshake {
 public:
  // `token` null: this process has none. kResource: no random bytes for the hello.
  static Result<ClientHandshake> Begin(std::string job, std::shared_ptr<const JobToken> token);

  // The first message to send.
  const std::string& hello() const { return hello_; }

  enum class Next : std::uint8_t {
    kRead,     // more bytes are needed
    kSend,     // send proof(), then call Take again
    kWelcome,  // the handshake is complete; the remaining bytes are replies to requests
  };
  // Consumes a complete message from the front of the received bytes. kProtocol: the bytes are not from a store. kAuth:
  // the tokens differ, or only one side has a token. Otherwise gives the error with which the server refused this
  // client.
  Result<Next> Take(std::string& bytes);

  const std::string& proof() const { return proof_; }

 private:
  ClientHandshake(std::string hello, ClientProof proof) : client_(std::move(proof)), hello_(std::move(hello)) {}

  ClientProof client_;
  std::string hello_;
  std::string proof_;  // empty: no challenge came
};

}  // namespace rondo::store_protocol
