// Certificates for tests, made on demand and removed by the destructor.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "base/tls.h"

namespace rondo::testing {

// The validity period of a certificate, as times from now; negative: in the past.
struct Validity {
  std::chrono::seconds from = std::chrono::hours(-1);
  std::chrono::seconds until = std::chrono::hours(24);
};

class TlsFiles {
 public:
  TlsFiles();  // makes its own folder
  ~TlsFiles();
  TlsFiles(const TlsFiles&) = delete;
  TlsFiles& operator=(const TlsFiles&) = delete;

  // The options of a job member with a certificate signed by the authority `ca`. If `ca` is used for the first time,
  // the authority is made first.
  TlsOptions Member(const std::string& ca, const std::string& name, Validity validity = {});
  // Writes a file with this content into the folder, and returns its path.
  std::string Write(const std::string& name, const std::string& content);

 private:
  struct Signed;
  Signed& Authority(const std::string& name);

  std::string folder_;
  std::map<std::string, std::unique_ptr<Signed>> authorities_;
};

// A key for TlsMode::kPsk. Different letters give different keys.
inline TlsOptions PskOf(char letter) {
  TlsOptions options;
  options.mode = TlsMode::kPsk;
  options.psk = std::string(kTlsPskBytes, letter);
  return options;
}

}  // namespace rondo::testing
