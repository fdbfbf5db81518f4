// Finds a process's TLS settings. The program may give them; otherwise they come from the environment.
//
//   RONDO_TLS               off, psk or certificates; not set: off
//   RONDO_TLS_PSK           psk: the job's key, 64 hexadecimal digits; not set: a key made from the job's token
//   RONDO_TLS_CA            certificates: file with the trusted certificate authorities
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

// Gives `given`, with its empty fields filled in from the environment. Without `given`, all fields come from the
// environment, which may be null. `token` is the job's token, or null. If neither source has a pre-shared key,
// JobToken::Derive makes the key from the token; the key reveals nothing about the token. kInvalidArgument names the
// variable and never shows a key.
Result<TlsOptions> FindTls(const std::optional<TlsOptions>& given, const Environment& environment,
                           const JobToken* token = nullptr);

// Convert a key to the text of RONDO_TLS_PSK, and back. kInvalidArgument: the text is not 64 hexadecimal digits.
std::string TlsPskText(std::string_view psk);
Result<std::string> ParseTlsPsk(std::string_view text);

}  // namespace rondo
