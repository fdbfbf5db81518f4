// Opens the store of a job that a launcher started: open_store.cc's way when the kind is kLaunch.
#pragma once

#include "base/result.h"
#include "rendezvous/url/open_store.h"

namespace rondo {

// See OpenStore. REQUIRES: options.exchange is what OpenExchange gave for this launch.
Result<OpenedStore> OpenLaunch(const Launched& launch, const OpenStoreOptions& options);

}  // namespace rondo
