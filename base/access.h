// The job's token and the proof of knowing it. The token is a secret that all processes of a job share. A process that
// cannot prove the token is accepted neither as a peer nor as a client of the store (docs/SECURITY.md).
//
// A proof is an HMAC-SHA256 (RFC 2104) over the bytes whose origin it proves, computed by OpenSSL. The secret itself
// never leaves the process. An attacker who reads a proof from the network can try to guess a secret that a person
// invented, but cannot guess 32 random bytes. MakeTokenText draws such bytes.
//
// Thread rule: plain values, each for one thread at a time. A JobToken is constant and may be used on any thread; its
// RandomSource must allow the same.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace rondo {

inline constexpr std::size_t kMaxTokenBytes = 1024;
inline constexpr std::size_t kNonceBytes = 16;
inline constexpr std::size_t kProofBytes = 32;

// A random number that is used for only one handshake. An attacker who records the messages of that handshake therefore
// cannot use them in another one.
using Nonce = std::array<std::byte, kNonceBytes>;
using TokenProof = std::array<std::byte, kProofBytes>;
using DerivedKey = std::array<std::byte, kProofBytes>;

// Fills the bytes with unpredictable values. Returns false if no random bytes are available.
using RandomSource = std::function<bool(MutableBytes)>;
// The operating system's random source, through OpenSSL.
bool SystemRandom(MutableBytes bytes);

// Draws a token: 32 random bytes in hexadecimal. kResource: no random bytes are available.
Result<std::string> MakeTokenText(const RandomSource& random = SystemRandom);

class JobToken {
 public:
  // kInvalidArgument: `text` is empty, is longer than kMaxTokenBytes, or contains a blank or a byte that is not
  // printable ASCII. The message names `what`, for example "variable RONDO_TOKEN", and never contains the text.
  // kUnsupported: OpenSSL has no HMAC-SHA256.
  static Result<std::shared_ptr<const JobToken>> Make(std::string_view text, std::string_view what,
                                                      RandomSource random = SystemRandom);
  ~JobToken();
  JobToken(const JobToken&) = delete;
  JobToken& operator=(const JobToken&) = delete;

  // Gives the same proof for equal `label` and `parts`. The length of each part is included, so different lists of
  // parts never give the same input to the HMAC.
  TokenProof Prove(std::string_view label, std::initializer_list<Bytes> parts) const;
  // Whether `claimed` is the proof that Prove gives. Takes the same time for every `claimed` of the right size.
  bool Proves(Bytes claimed, std::string_view label, std::initializer_list<Bytes> parts) const;

  // 16 hexadecimal digits that stand for the token in messages, and in records that ranks compare. Equal tokens give
  // equal digits; different tokens give equal digits with a probability of 2^-64. Apart from equality, the digits
  // reveal nothing about a random token.
  std::string Fingerprint() const;
  // Derives a key for another use of the same secret. A process that has only this key can compute neither the token
  // nor the keys of other labels.
  DerivedKey Derive(std::string_view label) const;

  // kResource: no random bytes are available.
  Result<Nonce> DrawNonce() const;

 private:
  JobToken(const DerivedKey& key, RandomSource random) : key_(key), random_(std::move(random)) {}

  DerivedKey key_;  // derived from the token's text, which is not stored; the destructor overwrites the key with zeros
  const RandomSource random_;
};

}  // namespace rondo
