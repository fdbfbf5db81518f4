// The functions that OpenSSL calls back, for tls_context.cc and tls_session.cc.
#pragma once

#include <openssl/ssl.h>

#include "base/tls.h"

namespace rondo {

struct TlsCallbacks {
  // UsePsk is for clients, FindPsk for servers. Both set `session` to a session that holds the job's key, or to null.
  static int UsePsk(SSL* ssl, const EVP_MD* hash, const unsigned char** identity, std::size_t* identity_bytes,
                    SSL_SESSION** session);
  static int FindPsk(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes, SSL_SESSION** session);
  // Stores as text what is wrong with a certificate; OpenSSL itself would report only a number.
  static int Judge(int fine, X509_STORE_CTX* store);
  static void SayWhatIsWrong(X509_STORE_CTX* store);
};

// SubjectOf returns the certificate's subject: "/CN=x". TimeText returns a time as text: "Nov 23 15:00:00 2026 GMT".
std::string SubjectOf(X509* certificate);
std::string TimeText(const ASN1_TIME* time);

}  // namespace rondo
