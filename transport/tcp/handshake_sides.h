// The two sides of a handshake between peers: which message follows which. Sans-I/O.
//
//   client -> server   hello                  with a nonce of the client's, where it has a token
//   server -> client   "prove"                with a nonce of the server's; only if both have a token
//   client -> server   proof
//   server -> client   replies, each proved
//
// Who proves what: base/handshake.h. The server refuses a client without its token (kAuth, with a text) before it
// checks anything else of the hello, and a client with a token accepts no reply without a proof. Only that refusal
// comes without a proof: a proof would give the client material to guess a weak token. Layout: docs/WIRE.md,
// "Handshake".
//
// Thread rule: one-thread objects.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/access.h"
#include "base/bytes.h"
#include "base/handshake.h"
#include "base/result.h"
#include "transport/tcp/handshake.h"

namespace rondo::tcp {

class ServerHandshake {
 public:
  // `token` null: this process has none.
  explicit ServerHandshake(std::shared_ptr<const JobToken> token);

  enum class Next : std::uint8_t {
    kRead,   // as many bytes as are wanted
    kSend,   // challenge(), then read on
    kJudge,  // the token is right: check hello()
  };
  // How many bytes to read next at most; 0 at kJudge.
  std::size_t wanted() const { return reader_.wanted(); }
  // REQUIRES: bytes.size() <= wanted(), not empty, and no error before. kProtocol: no Rondo sent this, so it gets no
  // answer. kVersionMismatch, kAuth and kResource (no random bytes): refuse it with this text.
  Result<Next> Feed(Bytes bytes);

  const std::vector<std::byte>& challenge() const { return challenge_; }
  // Whether the hello is complete, and the client must prove the token now.
  bool challenged() const { return proof_.challenged(); }
  // REQUIRES: kJudge.
  const Hello& hello() const { return hello_; }
  // The reply as bytes, with a proof if the client has proved to know the token.
  std::vector<std::byte> Encode(Reply reply) const;

 private:
  Result<Next> OnHello();
  Result<Next> OnProof();

  ServerProof proof_;
  MessageReader reader_{MessageReader::Kind::kHello};
  Hello hello_;
  std::vector<std::byte> challenge_;  // empty: none was given
};

class ClientHandshake {
 public:
  // `token` null: this process has none. kResource: no random bytes for the hello.
  static Result<ClientHandshake> Begin(Hello hello, std::shared_ptr<const JobToken> token);

  // To be sent first.
  const std::vector<std::byte>& hello_bytes() const { return hello_bytes_; }

  enum class Next : std::uint8_t {
    kRead,   // as many bytes as are wanted
    kSend,   // proof(), then read on
    kReply,  // reply() is there; after kHeld another one follows
  };
  std::size_t wanted() const { return reader_.wanted(); }
  // REQUIRES: bytes.size() <= wanted(), not empty, and no error before. kProtocol, kVersionMismatch: those of
  // MessageReader. kAuth: the two do not know the same token, or one of them has none.
  Result<Next> Feed(Bytes bytes);

  const std::vector<std::byte>& proof() const { return proof_; }
  const Reply& reply() const { return reply_; }

 private:
  ClientHandshake(std::vector<std::byte> hello_bytes, ClientProof proof)
      : client_(std::move(proof)), hello_bytes_(std::move(hello_bytes)) {}

  ClientProof client_;
  std::vector<std::byte> hello_bytes_;
  MessageReader reader_{MessageReader::Kind::kReply};
  std::vector<std::byte> proof_;  // empty: none was asked for
  Reply reply_;
};

}  // namespace rondo::tcp
