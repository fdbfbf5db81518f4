#include "rendezvous/tls_settings.h"

#include <fmt/core.h>

#include <charconv>

#include "base/bytes.h"
#include "rendezvous/job_token.h"

namespace rondo {

std::string TlsPskText(std::string_view psk) {
  std::string text;
  for (const char c : psk) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

Result<std::string> ParseTlsPsk(std::string_view text) {
  std::string psk;
  for (std::size_t i = 0; text.size() == 2 * kTlsPskBytes && i < text.size(); i += 2) {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    if (error != std::errc() || end != text.data() + i + 2) break;
    psk += static_cast<char>(byte);
  }
  if (psk.size() == kTlsPskBytes) return psk;
  return Fail(ErrorCode::kInvalidArgument,
              "variable {}: expected {} hexadecimal digits (openssl rand -hex {} prints some)", kTlsPskVariable,
              2 * kTlsPskBytes, kTlsPskBytes);
}

Result<TlsOptions> FindTls(const std::optional<TlsOptions>& given, const Environment& environment,
                           const JobToken* token) {
  const auto look_up = [&](std::string_view name) {
    return environment ? Lookup(environment, std::string(name)) : std::nullopt;
  };
  TlsOptions tls = given.value_or(TlsOptions{});
  if (!given) {
    if (const auto mode = look_up(kTlsVariable)) {
      RONDO_ASSIGN(tls.mode, ParseTlsMode(fmt::format("variable {}", kTlsVariable), *mode));
    }
  }
  if (tls.mode == TlsMode::kPsk && tls.psk.empty()) {
    if (const auto text = look_up(kTlsPskVariable)) {
      RONDO_ASSIGN(tls.psk, ParseTlsPsk(*text));
    } else if (token != nullptr) {
      tls.psk = ToText(token->Derive("tls"));
    } else {
      return Fail(ErrorCode::kInvalidArgument,
                  "TLS with a pre-shared key needs a key, and without a token none can be derived: set variable {} or "
                  "{} to the same value on all ranks (openssl rand -hex {} prints one)",
                  kTokenVariable, kTlsPskVariable, kTlsPskBytes);
    }
  }
  if (tls.mode == TlsMode::kCertificates) {
    for (const auto& [variable, file] :
         {std::pair("RONDO_TLS_CA", &tls.ca_file), std::pair("RONDO_TLS_CERTIFICATE", &tls.certificate_file),
          std::pair("RONDO_TLS_KEY", &tls.key_file)}) {
      if (file->empty()) *file = look_up(variable).value_or("");
      if (file->empty()) {
        return Fail(ErrorCode::kInvalidArgument,
                    "TLS with certificates needs a file that is not given: set variable {} to its path", variable);
      }
    }
  }
  return tls;
}

}  // namespace rondo
