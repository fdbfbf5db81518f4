#include "base/access.h"

#include <fmt/core.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace rondo {
namespace {

struct FreeMac {
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};

const unsigned char* Raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

// Returns false if OpenSSL does not offer HMAC-SHA256 (a configuration may forbid it) or if memory runs out.
bool HmacSha256(Bytes key, std::string_view label, std::initializer_list<Bytes> parts, TokenProof& out) {
  const std::unique_ptr<EVP_MAC, FreeMac> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  const std::unique_ptr<EVP_MAC_CTX, FreeMac> context(mac ? EVP_MAC_CTX_new(mac.get()) : nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                   OSSL_PARAM_construct_end()};
  if (!context || EVP_MAC_init(context.get(), Raw(key.data()), key.size(), parameters) != 1) return false;
  const auto add = [&](Bytes part) {
    std::byte length[8];
    StoreLittle(length, static_cast<std::uint64_t>(part.size()));
    return EVP_MAC_update(context.get(), Raw(length), sizeof length) == 1 &&
           EVP_MAC_update(context.get(), Raw(part.data()), part.size()) == 1;
  };
  if (!add(AsBytes(label)) || !std::all_of(parts.begin(), parts.end(), add)) return false;
  std::size_t bytes = 0;
  return EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(out.data()), &bytes, out.size()) == 1 &&
         bytes == out.size();
}

std::string Hex(Bytes bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

}  // namespace

bool SystemRandom(MutableBytes bytes) {
  return RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) == 1;
}

Result<std::string> MakeTokenText(const RandomSource& random) {
  std::array<std::byte, 32> secret;
  if (!random(secret)) return Fail(ErrorCode::kResource, "cannot make a job token: the system gave no random bytes");
  std::string text = Hex(secret);
  OPENSSL_cleanse(secret.data(), secret.size());
  return text;
}

Result<std::shared_ptr<const JobToken>> JobToken::Make(std::string_view text, std::string_view what,
                                                       RandomSource random) {
  if (text.empty()) return Fail(ErrorCode::kInvalidArgument, "{} is empty; a token is a secret text", what);
  if (text.size() > kMaxTokenBytes) {
    return Fail(ErrorCode::kInvalidArgument, "{} has {} bytes; a job token may have at most {}", what, text.size(),
                kMaxTokenBytes);
  }
  const auto odd = std::find_if(text.begin(), text.end(), [](char c) { return c <= ' ' || c > '~'; });
  if (odd != text.end()) {
    return Fail(ErrorCode::kInvalidArgument,
                "byte {} of {} is a blank or not printable; a token consists of letters, digits and punctuation",
                odd - text.begin() + 1, what);
  }
  DerivedKey key;
  if (!HmacSha256(AsBytes(text), "rondo job token", {}, key)) {
    return Fail(ErrorCode::kUnsupported, "{} cannot be used: this machine's OpenSSL has no HMAC-SHA256", what);
  }
  std::shared_ptr<const JobToken> token(new JobToken(key, std::move(random)));
  OPENSSL_cleanse(key.data(), key.size());
  return token;
}

JobToken::~JobToken() { OPENSSL_cleanse(key_.data(), key_.size()); }

TokenProof JobToken::Prove(std::string_view label, std::initializer_list<Bytes> parts) const {
  TokenProof proof;
  RONDO_CHECK(HmacSha256(key_, label, parts, proof), "OpenSSL computed an HMAC before, but now fails to");
  return proof;
}

bool JobToken::Proves(Bytes claimed, std::string_view label, std::initializer_list<Bytes> parts) const {
  const TokenProof right = Prove(label, parts);
  return claimed.size() == right.size() && CRYPTO_memcmp(claimed.data(), right.data(), right.size()) == 0;
}

std::string JobToken::Fingerprint() const { return Hex(Bytes(Prove("fingerprint", {})).first(8)); }

DerivedKey JobToken::Derive(std::string_view label) const { return Prove("derive", {AsBytes(label)}); }

Result<Nonce> JobToken::DrawNonce() const {
  Nonce nonce;
  if (!random_(nonce)) return Fail(ErrorCode::kResource, "cannot begin a handshake: the system gave no random bytes");
  return nonce;
}

}  // namespace rondo
