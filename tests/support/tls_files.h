// Certificates for tests, made on demand and removed by the destructor.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "base/tls.h"

namespace rondo::testing {

// Times relative to now; negative: in the past.
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

  // The options of a job member whose certificate is signed by the authority `ca`. The first use of a name makes that
  // authority.
  TlsOptions Member(const std::string& ca, const std::string& name, Validity validity = {});
  // Writes a file with this content into the folder.
  std::string Write(const std::string& name, const std::string& content);

 private:
  struct Signed;
  Signed& Authority(const std::string& name);

  std::string folder_;
  std::map<std::string, std::unique_ptr<Signed>> authorities_;
};

// A key for TlsMode::kPsk; each letter gives another key.
inline TlsOptions PskOf(char letter) {
  TlsOptions options;
  options.mode = TlsMode::kPsk;
  options.psk = std::string(kTlsPskBytes, letter);
  return options;
}

}  // namespace rondo::testing
