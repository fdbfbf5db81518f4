// The handshake of a store's client and server: which message follows which. Bytes in, bytes out.
//
//   client -> server   hello                 with a nonce of the client's, where it has a token
//   server -> client   a challenge           with a nonce of the server's; only if both have a token
//   client -> server   proof
//   server -> client   hello reply, proved
//
// Who proves what: base/handshake.h. A server with a token says and serves nothing else before the proof, and a client
// with one believes no welcome that is not proved. Layout: docs/WIRE.md, "Store protocol".
//
// Thread rule: one-thread objects.
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
    kRead,   // more must come
    kSend,   // challenge(), then take on
    kJudge,  // the client belongs here as far as version and token say: judge hello()
  };
  // Takes what it needs off the front of what came. kProtocol: no client of a store said this, it deserves no answer.
  // kVersionMismatch, kAuth, kResource (no random bytes): refuse it in these words. REQUIRES: no error and no kJudge
  // before.
  Result<Next> Take(std::string& bytes);

  const std::string& challenge() const { return challenge_; }
  const Hello& hello() const { return hello_; }
  // The reply as this client must get it: proved, once the client has proved itself.
  std::string Encode(HelloReply reply) const;

 private:
  Result<Next> TakeHello(std::string& bytes);
  Result<Next> TakeProof(std::string& bytes);

  ServerProof proof_;
  Hello hello_;
  std::string challenge_;  // empty: none was given
};

class ClientHandshake {
 public:
  // `token` null: this process has none. kResource: no random bytes for the hello.
  static Result<ClientHandshake> Begin(std::string job, std::shared_ptr<const JobToken> token);

  // To be sent first.
  const std::string& hello() const { return hello_; }

  enum class Next : std::uint8_t {
    kRead,     // more must come
    kSend,     // proof(), then take on
    kWelcome,  // what is left of the bytes are replies to requests
  };
  // Takes what it needs off the front of what came. kProtocol: no store said this. kAuth: the two do not know the same
  // token, or one of them has none. Else the error for which the server refuses.
  Result<Next> Take(std::string& bytes);

  const std::string& proof() const { return proof_; }

 private:
  ClientHandshake(std::string hello, ClientProof proof) : client_(std::move(proof)), hello_(std::move(hello)) {}

  ClientProof client_;
  std::string hello_;
  std::string proof_;  // empty: none was asked for
};

}  // namespace rondo::store_protocol
