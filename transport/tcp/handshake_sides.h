// The two sides of a handshake between peers: which message follows which. Sans-I/O.
//
//   client -> server   hello with the client's nonce, if it has a token
//   server -> client   "prove" with the server's nonce; only if both have a token
//   client -> server   proof
//   server -> client   replies, each with a proof
//
// base/handshake.h says what each side proves. The server refuses a client without its token (kAuth, with a text)
// before it checks any other part of the hello. A client with a token accepts no reply without a proof. The only
// exception is the kAuth refusal, because a proof would help the client to guess a weak token. Layout: docs/WIRE.md,
// "Handshake".
//
// Thread rule: one thread at a time uses an object.
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
  // `token`: null if this process has none.
  explicit ServerHandshake(std::shared_ptr<const JobToken> token);

  enum class Next : std::uint8_t {
    kRead,   // the caller must read up to wanted() bytes
    kSend,   // the caller must send challenge(), and then read again
    kJudge,  // hello() and any proof are complete: the caller must check hello()
  };
  // The largest number of bytes to read next; 0 at kJudge.
  std::size_t wanted() const { return reader_.wanted(); }
  // REQUIRES: bytes.size() <= wanted(), not empty, and no error before. kProtocol: the client is not Rondo, so it gets
  // no reply. kVersionMismatch, kAuth and kResource (no random bytes): refuse the client with the error's text.
  Result<Next> Feed(Bytes bytes);

  const std::vector<std::byte>& challenge() const { return challenge_; }
  // Whether the hello is complete, and the client must prove the token next.
  bool challenged() const { return proof_.challenged(); }
  // REQUIRES: kJudge.
  const Hello& hello() const { return hello_; }
  // The reply as bytes. It contains a proof if the client has proved that it knows the token.
  std::vector<std::byte> Encode(Reply reply) const;

 private:
  Result<Next> OnHello();
  Result<Next> OnProof();

  ServerProof proof_;
  MessageReader reader_{MessageReader::Kind::kHello};
  Hello hello_;
  std::vector<std::byte> challenge_;  // empty: there was no challenge
};

class ClientHandshake {
 public:
  // `token`: null if this process has none. kResource: the system gave no random bytes for the hello.
  static Result<ClientHandshake> Begin(Hello hello, std::shared_ptr<const JobToken> token);

  // The bytes that the caller must send first.
  const std::vector<std::byte>& hello_bytes() const { return hello_bytes_; }

  enum class Next : std::uint8_t {
    kRead,   // the caller must read up to wanted() bytes
    kSend,   // the caller must send proof(), and then read again
    kReply,  // reply() is complete; after kHeld another reply follows
  };
  std::size_t wanted() const { return reader_.wanted(); }
  // REQUIRES: bytes.size() <= wanted(), not empty, and no error before. kProtocol, kVersionMismatch: as in
  // MessageReader. kAuth: the sides do not have the same token, or only one of them has a token.
  Result<Next> Feed(Bytes bytes);

  const std::vector<std::byte>& proof() const { return proof_; }
  const Reply& reply() const { return reply_; }

 private:
  ClientHandshake(std::vector<std::byte> hello_bytes, ClientProof proof)
      : client_(std::move(proof)), hello_bytes_(std::move(hello_bytes)) {}

  ClientProof client_;
  std::vector<std::byte> hello_bytes_;
  MessageReader reader_{MessageReader::Kind::kReply};
  std::vector<std::byte> proof_;  // empty: the server requested no proof
  Reply reply_;
};

}  // namespace rondo::tcp
