// Opens the store of a job that a launcher started: OpenStore for InitMethod::Kind::kLaunch.
#pragma once

#include "base/result.h"
#include "rendezvous/url/open_store.h"

namespace rondo {

// Opens the store like OpenStore. REQUIRES: if the launch needs an exchange, options.exchange is the result of
// OpenExchange for this launch.
Result<OpenedStore> OpenLaunch(const Launched& launch, const OpenStoreOptions& options);

}  // namespace rondo
