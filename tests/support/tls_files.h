// Certificates for tests, made when they are needed and gone with the object that made them.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "base/tls.h"

namespace rondo::testing {

// From now on; negative: before now.
struct Validity {
  std::chrono::seconds from = std::chrono::hours(-1);
  std::chrono::seconds until = std::chrono::hours(24);
};

class TlsFiles {
 public:
  TlsFiles();  // in a folder of its own
  ~TlsFiles();
  TlsFiles(const TlsFiles&) = delete;
  TlsFiles& operator=(const TlsFiles&) = delete;

  // What a member of the job has whose certificate the authority `ca` signed. An authority is made when it is first
  // named.
  TlsOptions Member(const std::string& ca, const std::string& name, Validity validity = {});
  // A file beside the others, with this in it.
  std::string Write(const std::string& name, const std::string& content);

 private:
  struct Signed;
  Signed& Authority(const std::string& name);

  std::string folder_;
  std::map<std::string, std::unique_ptr<Signed>> authorities_;
};

// A key for TlsMode::kPsk, another one for each letter.
inline TlsOptions PskOf(char letter) {
  TlsOptions options;
  options.mode = TlsMode::kPsk;
  options.psk = std::string(kTlsPskBytes, letter);
  return options;
}

}  // namespace rondo::testing
