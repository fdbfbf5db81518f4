// The two sides of a handshake: which message follows which, and who proves to know the job's token. Sans-I/O.
//
//   caller -> called   hello                  with a nonce of the caller's, where it has a token
//   called -> caller   "prove"                with a nonce of the called's; only if both have a token
//   caller -> called   proof                  over these two: it knows the token
//   called -> caller   replies, each proved   over hello, "prove" and reply: so does the called
//
// Without a token on either side there are hello and replies alone. Where one side has one and the other has not, and
// where the tokens differ, the called refuses in words (kAuth) before it has judged anything else of the hello; and the
// caller believes no reply that is not proved. A refusal by the token is the one reply without proof: proving something
// to whoever cannot would give strangers material to guess a weak token by.
//
// What this is worth is said in docs/SECURITY.md. Layout: docs/WIRE.md, "Handshake".
//
// Thread rule: one-thread objects.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/access.h"
#include "base/bytes.h"
#include "base/result.h"
#include "transport/tcp/handshake.h"

namespace rondo::tcp {

class CalledSide {
 public:
  // `token` null: this process has none.
  explicit CalledSide(std::shared_ptr<const JobToken> token);

  enum class Next : std::uint8_t {
    kRead,   // as many bytes as are wanted
    kSend,   // challenge(), then read on
    kJudge,  // the caller belongs here as far as the token says: judge hello()
  };
  // How many bytes to read next at most; 0 at kJudge.
  std::size_t wanted() const { return reader_.wanted(); }
  // REQUIRES: bytes.size() <= wanted(), not empty, and no error before. kProtocol: no Rondo sent this, it deserves no
  // answer. kVersionMismatch, kAuth and kResource (no random bytes): refuse it in these words.
  Result<Next> Feed(Bytes bytes);

  const std::vector<std::byte>& challenge() const { return challenge_; }
  // A hello was complete; the caller is to prove it now.
  bool challenged() const { return !challenge_.empty(); }
  // REQUIRES: kJudge.
  const Hello& hello() const { return hello_; }
  // The reply as this caller is to get it: proved, once it has proved itself.
  std::vector<std::byte> Encode(Reply reply) const;

 private:
  Result<Next> OnHello();
  Result<Next> OnProof();

  const std::shared_ptr<const JobToken> token_;
  MessageReader reader_{MessageReader::Kind::kHello};
  Hello hello_;
  std::vector<std::byte> hello_bytes_;
  std::vector<std::byte> challenge_;  // empty: none was given
  bool proved_ = false;
};

class CallingSide {
 public:
  // `token` null: this process has none. kResource: no random bytes for the hello.
  static Result<CallingSide> Begin(Hello hello, std::shared_ptr<const JobToken> token);

  // To be sent first.
  const std::vector<std::byte>& hello_bytes() const { return hello_bytes_; }

  enum class Next : std::uint8_t {
    kRead,   // as many bytes as are wanted
    kSend,   // proof(), then read on
    kReply,  // reply() is there; after kHeld another one follows
  };
  std::size_t wanted() const { return reader_.wanted(); }
  // REQUIRES: bytes.size() <= wanted(), not empty, and no error before. kProtocol, kVersionMismatch: as MessageReader
  // says. kAuth: the two do not know the same token, or one of them has none.
  Result<Next> Feed(Bytes bytes);

  const std::vector<std::byte>& proof() const { return proof_; }
  const Reply& reply() const { return reply_; }

 private:
  CallingSide(std::vector<std::byte> hello_bytes, std::shared_ptr<const JobToken> token)
      : token_(std::move(token)), hello_bytes_(std::move(hello_bytes)) {}
  Result<Next> Prove(const std::vector<std::byte>& challenge);
  Status Believe(const Reply& reply, Bytes said) const;

  std::shared_ptr<const JobToken> token_;
  std::vector<std::byte> hello_bytes_;
  MessageReader reader_{MessageReader::Kind::kReply};
  std::vector<std::byte> challenge_;
  std::vector<std::byte> proof_;  // empty: none was asked for
  Reply reply_;
};

}  // namespace rondo::tcp
