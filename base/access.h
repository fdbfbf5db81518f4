// The job's token: a secret that all processes of a job know, and the proof of knowing it. Whoever cannot prove it is
// neither a peer nor a client of the store (docs/SECURITY.md).
//
// A proof is an HMAC-SHA256 (RFC 2104) over what is proved, by OpenSSL. The secret itself never leaves the process. Who
// hears a proof can try guesses at a secret that people thought up, but not at 32 random bytes: MakeTokenText draws
// them.
//
// Thread rule: values; a JobToken is constant, any thread, as its RandomSource must be.
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

// A number that is used once, so that what was heard of one handshake is worth nothing in another one.
using Nonce = std::array<std::byte, kNonceBytes>;
using TokenProof = std::array<std::byte, kProofBytes>;
using DerivedKey = std::array<std::byte, kProofBytes>;

// Fills the bytes with what nobody can foretell; false where there is nothing to draw from.
using RandomSource = std::function<bool(MutableBytes)>;
// The operating system's, by way of OpenSSL.
bool SystemRandom(MutableBytes bytes);

// 32 random bytes in hexadecimal: a token. kResource: the source is dry.
Result<std::string> MakeTokenText(const RandomSource& random = SystemRandom);

class JobToken {
 public:
  // kInvalidArgument if `text` is empty, longer than kMaxTokenBytes or has a byte that is no printable ASCII character;
  // the message names `what` ("variable RONDO_TOKEN") and never the text. kUnsupported: OpenSSL has no HMAC-SHA256.
  static Result<std::shared_ptr<const JobToken>> Make(std::string_view text, std::string_view what,
                                                      RandomSource random = SystemRandom);
  ~JobToken();
  JobToken(const JobToken&) = delete;
  JobToken& operator=(const JobToken&) = delete;

  // Equal for equal `label` and `parts`, each part taken with its length, so that no two lists of parts are alike.
  TokenProof Prove(std::string_view label, std::initializer_list<Bytes> parts) const;
  // Takes the same time whatever `claimed` is.
  bool Proves(Bytes claimed, std::string_view label, std::initializer_list<Bytes> parts) const;

  // 16 hexadecimal digits that equal tokens have in common and others, but for one in 2^64, do not: for people, and for
  // records that ranks compare. Of a random token it tells nothing else.
  std::string Fingerprint() const;
  // A key for another use of the same secret. Who has it knows neither the token nor the keys of other labels.
  DerivedKey Derive(std::string_view label) const;

  // kResource: the source is dry.
  Result<Nonce> DrawNonce() const;

 private:
  JobToken(const DerivedKey& key, RandomSource random) : key_(key), random_(std::move(random)) {}

  DerivedKey key_;  // made from the text, which is not kept; wiped at the end
  const RandomSource random_;
};

}  // namespace rondo
