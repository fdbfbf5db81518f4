// Opens the store of a job that a launcher started: OpenStore for InitMethod::Kind::kLaunch.
#pragma once

#include "base/result.h"
#include "rendezvous/url/open_store.h"

namespace rondo {

// As OpenStore. REQUIRES: if the launch needs an exchange, options.exchange is the one that OpenExchange gave for it.
Result<OpenedStore> OpenLaunch(const Launched& launch, const OpenStoreOptions& options);

}  // namespace rondo
