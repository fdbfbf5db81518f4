// What a process is told about TLS: by its program, and else by its environment.
//
//   RONDO_TLS               off, psk or certificates; not set: off
//   RONDO_TLS_PSK           psk: the job's key, 64 hexadecimal digits; not set: a key made from the job's token
//   RONDO_TLS_CA            certificates: file of the authorities believed
//   RONDO_TLS_CERTIFICATE   certificates: file of this process's certificate
//   RONDO_TLS_KEY           certificates: file of that certificate's key
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/access.h"
#include "base/result.h"
#include "base/tls.h"
#include "rendezvous/environment.h"

namespace rondo {

inline constexpr std::string_view kTlsVariable = "RONDO_TLS";
inline constexpr std::string_view kTlsPskVariable = "RONDO_TLS_PSK";

// `given` if there is one, its empty fields filled in from the environment, which may be null; else the environment's.
// `token`: the job's, which gives the key where neither names one (JobToken::Derive, so a key tells nothing of the
// token); may be null. kInvalidArgument names the variable, and never shows a key.
Result<TlsOptions> FindTls(const std::optional<TlsOptions>& given, const Environment& environment,
                           const JobToken* token = nullptr);

// The text of a key for RONDO_TLS_PSK, and back. kInvalidArgument: not 64 hexadecimal digits.
std::string TlsPskText(std::string_view psk);
Result<std::string> ParseTlsPsk(std::string_view text);

}  // namespace rondo
