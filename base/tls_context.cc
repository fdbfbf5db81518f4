#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <array>
#include <cstring>
#include <system_error>

#include "base/out_of_memory.h"
#include "base/tls.h"
#include "base/tls_callbacks.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxIdentityBytes = 128;
constexpr long kMaxPeerChainBytes = 32 << 10;

// The reason that OpenSSL recorded first, because later ones are only consequences of the first.
std::string FirstReason() {
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  if (ERR_SYSTEM_ERROR(code)) return std::generic_category().message(ERR_GET_REASON(code));
  const char* const reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "no reason given";
}

Error CannotUse(std::string_view what, const std::string& file, std::string_view why) {
  return {ErrorCode::kInvalidArgument, fmt::format("TLS cannot use {} '{}': {}", what, file, why)};
}

}  // namespace

std::string_view Name(TlsMode mode) {
  switch (mode) {
    case TlsMode::kOff: return "off";
    case TlsMode::kPsk: return "psk";
    case TlsMode::kCertificates: return "certificates";
  }
  return "";
}

Result<TlsMode> ParseTlsMode(std::string_view what, std::string_view text) {
  for (const TlsMode mode : {TlsMode::kOff, TlsMode::kPsk, TlsMode::kCertificates}) {
    if (text == Name(mode)) return mode;
  }
  return Fail(ErrorCode::kInvalidArgument, "{} is '{}'; expected off, psk or certificates", what, text);
}

Result<std::string> NewTlsPsk() {
  std::string psk(kTlsPskBytes, '\0');
  if (RAND_priv_bytes(reinterpret_cast<unsigned char*>(psk.data()), static_cast<int>(psk.size())) == 1) return psk;
  return Fail(ErrorCode::kResource, "cannot make a pre-shared key: no random bytes ({})", FirstReason());
}

Result<std::shared_ptr<const TlsContext>> TlsContext::Make(const TlsOptions& options) {
  if (options.mode == TlsMode::kOff) return std::shared_ptr<const TlsContext>();
  if (options.mode == TlsMode::kPsk) {
    if (options.psk.size() != kTlsPskBytes) {
      return Fail(ErrorCode::kInvalidArgument, "TLS with a pre-shared key: expected a key of {} bytes, got {}",
                  kTlsPskBytes, options.psk.size());
    }
    if (options.psk_identity.empty() || options.psk_identity.size() > kMaxIdentityBytes) {
      return Fail(ErrorCode::kInvalidArgument, "the pre-shared key's identity has {} bytes; expected 1 to {}",
                  options.psk_identity.size(), kMaxIdentityBytes);
    }
  } else {
    for (const auto& [what, file] :
         {std::pair("CA file", &options.ca_file), std::pair("certificate file", &options.certificate_file),
          std::pair("key file", &options.key_file)}) {
      if (file->empty())
        return Fail(ErrorCode::kInvalidArgument, "TLS with certificates needs a {}, but none is given", what);
    }
  }
  const std::shared_ptr<TlsContext> made(new TlsContext(options));
  RONDO_TRY(made->SetUp());
  return std::shared_ptr<const TlsContext>(made);
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
  OPENSSL_cleanse(options_.psk.data(), options_.psk.size());
}

Status TlsContext::SetUp() {
  ERR_clear_error();
  context_ = SSL_CTX_new(TLS_method());
  if (context_ == nullptr) return Fail(ErrorCode::kOutOfMemory, "cannot create a TLS context: {}", FirstReason());
  SSL_CTX_set_app_data(context_, this);
  // AES-128-GCM is the fastest choice on processors with AES instructions, which are the common case. A handshake with
  // X25519 takes half a millisecond less than with other key exchanges. TLS 1.3 has no weak choices, but a machine's
  // own policy (openssl.cnf) can forbid some of them.
  if (SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context_,
                               "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384") != 1 ||
      SSL_CTX_set1_groups_list(context_, "X25519:P-256") != 1) {
    return Fail(ErrorCode::kUnsupported, "this machine's OpenSSL refuses TLS 1.3: {}", FirstReason());
  }
  // Sessions are never resumed, because a session is needed only during its connection, and a stored key could be
  // stolen.
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context_, 0);
  SSL_CTX_set_options(context_, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_max_cert_list(context_, kMaxPeerChainBytes);
  if (options_.mode == TlsMode::kPsk) {
    SSL_CTX_set_psk_use_session_callback(context_, TlsCallbacks::UsePsk);
    SSL_CTX_set_psk_find_session_callback(context_, TlsCallbacks::FindPsk);
    return {};
  }
  // Without this callback OpenSSL would ask for a key's password at the terminal.
  SSL_CTX_set_default_passwd_cb(context_, [](char*, int, int, void*) { return 0; });
  const auto& [ca, certificate, key] = std::tie(options_.ca_file, options_.certificate_file, options_.key_file);
  if (SSL_CTX_load_verify_file(context_, ca.c_str()) != 1) return rondo::Fail(CannotUse("CA file", ca, FirstReason()));
  if (SSL_CTX_use_certificate_chain_file(context_, certificate.c_str()) != 1) {
    return rondo::Fail(CannotUse("certificate file", certificate, FirstReason()));
  }
  if (SSL_CTX_use_PrivateKey_file(context_, key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context_) != 1) {
    return rondo::Fail(CannotUse("key file", key, FirstReason()));
  }
  return {};
}

// ---- called by OpenSSL ----

namespace {

const TlsContext& ContextOf(const SSL* ssl) {
  return *static_cast<const TlsContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

// Wraps the key as OpenSSL requires it: as a TLS 1.3 session that never took place. Null: out of memory.
SSL_SESSION* SessionOf(SSL* ssl, std::string_view key) {
  constexpr std::array<unsigned char, 2> kAes128GcmSha256{0x13, 0x01};
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256.data());
  if (cipher != nullptr &&
      SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

}  // namespace

int TlsCallbacks::UsePsk(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, std::size_t* identity_bytes,
                         SSL_SESSION** session) {
  *session = nullptr;
  // The server chose a hash that differs from the key's hash.
  if (hash != nullptr && !EVP_MD_is_a(hash, "SHA256")) return 1;
  const TlsOptions& options = ContextOf(ssl).options_;
  *session = SessionOf(ssl, options.psk);
  *identity = reinterpret_cast<const unsigned char*>(options.psk_identity.data());
  *identity_bytes = options.psk_identity.size();
  return *session != nullptr ? 1 : 0;
}

int TlsCallbacks::FindPsk(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes, SSL_SESSION** session) {
  const TlsOptions& options = ContextOf(ssl).options_;
  *session = nullptr;
  if (std::string_view(reinterpret_cast<const char*>(identity), identity_bytes) != options.psk_identity) {
    static_cast<TlsSession*>(SSL_get_app_data(ssl))->unknown_identity_ = true;
    return 1;
  }
  *session = SessionOf(ssl, options.psk);
  return *session != nullptr ? 1 : 0;
}

int TlsCallbacks::Judge(int fine, X509_STORE_CTX* store) {
  if (fine == 1) return 1;
  // No exception may pass through OpenSSL. If there is no memory for the text, the certificate is refused without it.
  IfMemoryAllows([&] { SayWhatIsWrong(store); });
  return 0;
}

void TlsCallbacks::SayWhatIsWrong(X509_STORE_CTX* store) {
  const auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& session = *static_cast<TlsSession*>(SSL_get_app_data(ssl));
  X509* const certificate = X509_STORE_CTX_get_current_cert(store);
  const int error = X509_STORE_CTX_get_error(store);
  std::string why = X509_verify_cert_error_string(error);
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      why = fmt::format("it expired on {}", TimeText(X509_get0_notAfter(certificate)));
      break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      why = fmt::format("it is valid only from {} on", TimeText(X509_get0_notBefore(certificate)));
      break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE: why = fmt::format("it is not signed by the job's CA ({})", why); break;
    default: break;
  }
  session.judgement_ = fmt::format("certificate '{}': {}", certificate != nullptr ? SubjectOf(certificate) : "", why);
}

std::string SubjectOf(X509* certificate) {
  std::array<char, 256> text{};
  X509_NAME_oneline(X509_get_subject_name(certificate), text.data(), static_cast<int>(text.size()));
  return text.data();
}

std::string TimeText(const ASN1_TIME* time) {
  struct Free {
    void operator()(BIO* bio) const { BIO_free(bio); }
  };
  const std::unique_ptr<BIO, Free> memory(BIO_new(BIO_s_mem()));
  if (!memory) return "";
  ASN1_TIME_print(memory.get(), time);
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(memory.get(), &text);
  return {text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
}

}  // namespace rondo
