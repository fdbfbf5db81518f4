// By what a process proves itself: what its program gave, and else its environment (job_token.h, tls_settings.h).
#pragma once

#include <optional>
#include <string>

#include "base/identity.h"
#include "base/result.h"
#include "rendezvous/environment.h"

namespace rondo {

// `token`: "" if none is given; `tls`: nullopt if nothing is. `environment` may be empty. Errors: those of TokenText,
// MakeJobToken, FindTls and TlsContext::Make.
Result<Identity> FindIdentity(const std::string& token, const std::optional<TlsOptions>& tls,
                              const Environment& environment);

}  // namespace rondo
