#include "tests/support/tls_files.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/check.h"

namespace rondo::testing {
namespace {

template <typename Put>
std::string Pem(const Put& put) {
  BIO* const memory = BIO_new(BIO_s_mem());
  RONDO_CHECK(put(memory) == 1);
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(memory, &text);
  std::string copy(text, static_cast<std::size_t>(bytes));
  BIO_free(memory);
  return copy;
}

void Extend(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  RONDO_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace

struct TlsFiles::Signed {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();

  // `signer`: null for a certificate that signs itself. Such a certificate is an authority.
  Signed(const std::string& name, const Signed* signer, const Validity& validity) {
    RONDO_CHECK(key != nullptr && certificate != nullptr);
    static_assert(sizeof(long) == 8);
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set_int64(X509_get_serialNumber(certificate), rand());
    X509_gmtime_adj(X509_getm_notBefore(certificate), validity.from.count());
    X509_gmtime_adj(X509_getm_notAfter(certificate), validity.until.count());
    X509_set_pubkey(certificate, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509* const issuer = signer != nullptr ? signer->certificate : certificate;
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
    Extend(certificate, issuer, NID_basic_constraints, signer != nullptr ? "CA:FALSE" : "critical,CA:TRUE");
    RONDO_CHECK(X509_sign(certificate, signer != nullptr ? signer->key : key, EVP_sha256()) != 0);
  }
  ~Signed() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  Signed(const Signed&) = delete;

  std::string CertificatePem() const {
    return Pem([&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
  }
  std::string KeyPem() const {
    return Pem([&](BIO* to) { return PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr); });
  }
};

TlsFiles::TlsFiles() {
  const char* const parent = std::getenv("TEST_TMPDIR");
  folder_ = std::string(parent != nullptr ? parent : "/tmp") + "/rondo-tls-XXXXXX";
  RONDO_CHECK(mkdtemp(folder_.data()) != nullptr);
}

TlsFiles::~TlsFiles() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string TlsFiles::Write(const std::string& name, const std::string& content) {
  std::string path = folder_ + "/" + name;
  std::ofstream(path) << content;
  return path;
}

TlsFiles::Signed& TlsFiles::Authority(const std::string& name) {
  std::unique_ptr<Signed>& authority = authorities_[name];
  if (!authority) {
    authority = std::make_unique<Signed>(name, nullptr, Validity{});
    Write(name + ".pem", authority->CertificatePem());
  }
  return *authority;
}

TlsOptions TlsFiles::Member(const std::string& ca, const std::string& name, Validity validity) {
  const Signed member(name, &Authority(ca), validity);
  TlsOptions options;
  options.mode = TlsMode::kCertificates;
  options.ca_file = folder_ + "/" + ca + ".pem";
  options.certificate_file = Write(name + ".pem", member.CertificatePem());
  options.key_file = Write(name + ".key", member.KeyPem());
  return options;
}

}  // namespace rondo::testing
