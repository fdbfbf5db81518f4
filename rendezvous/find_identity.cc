#include "rendezvous/find_identity.h"

#include "rendezvous/job_token.h"
#include "rendezvous/tls_settings.h"

namespace rondo {

Result<Identity> FindIdentity(const std::string& token, const std::optional<TlsOptions>& tls,
                              const Environment& environment) {
  Identity identity;
  RONDO_ASSIGN(const std::string text, TokenText(token, environment));
  RONDO_ASSIGN(identity.token, MakeJobToken(text));
  RONDO_ASSIGN(const TlsOptions options, FindTls(tls, environment, identity.token.get()));
  RONDO_ASSIGN(identity.tls, TlsContext::Make(options));
  return identity;
}

}  // namespace rondo
