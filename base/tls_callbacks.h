// What OpenSSL calls back into; for tls_context.cc and tls_session.cc.
#pragma once

#include <openssl/ssl.h>

#include "base/tls.h"

namespace rondo {

struct TlsCallbacks {
  // Both give the session that stands for the job's key, or none.
  static int UsePsk(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, std::size_t* identity_bytes,
                    SSL_SESSION** session);
  static int FindPsk(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes, SSL_SESSION** session);
  // Puts into words what is wrong with a certificate, which OpenSSL would give as a number.
  static int Judge(int fine, X509_STORE_CTX* store);
  static void SayWhatIsWrong(X509_STORE_CTX* store);
};

// "certificate '/CN=x'", and when it ends: "Nov 23 15:00:00 2026 GMT".
std::string SubjectOf(X509* certificate);
std::string TimeText(const ASN1_TIME* time);

}  // namespace rondo
