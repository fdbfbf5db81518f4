// Finds the token and the TLS credentials of a process. The program may give them; otherwise they come from the
// environment (job_token.h, tls_settings.h).
#pragma once

#include <optional>
#include <string>

#include "base/identity.h"
#include "base/result.h"
#include "rendezvous/environment.h"

namespace rondo {

// `token` "" and `tls` nullopt mean that the program gave none. `environment` may be empty. Errors: those of TokenText,
// MakeJobToken, FindTls and TlsContext::Make.
Result<Identity> FindIdentity(const std::string& token, const std::optional<TlsOptions>& tls,
                              const Environment& environment);

}  // namespace rondo
