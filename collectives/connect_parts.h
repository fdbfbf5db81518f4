// Parts of Connect that a rebuild repeats. Not public.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/identity.h"
#include "collectives/connect.h"
#include "rendezvous/membership.h"
#include "rendezvous/url/init_method.h"
#include "rendezvous/url/open_store.h"
#include "transport/transport.h"

namespace rondo {

// Returns a new id for every process and generation. It distinguishes this process from a restarted one, and from an
// older generation.
std::string NewInstance();

// What this process publishes about itself in one generation.
struct Presence {
  Member self;
  std::shared_ptr<Transport> transport;
  std::vector<std::string> hosts;  // the numeric addresses that this process's transport publishes
};

// Makes a transport for this generation alone, and the description of this process that goes with it. REQUIRES:
// options.communicator.clock and .profile are set; options.token and options.tls are the results of TokenText and
// FindTls, and `identity` is made from them. Errors: those of the transports.
Result<Presence> MakePresence(const ConnectOptions& options, const Identity& identity, const std::string& job,
                              std::uint64_t generation);

// The options of the communicator, after the rendezvous. kInvalidArgument: only shared memory was allowed, but the
// ranks are on several hosts.
Result<CommunicatorOptions> OptionsAfterRendezvous(const ConnectOptions& options, const std::string& job,
                                                   const Membership& membership, std::shared_ptr<Transport> transport);

// Opens the caller's store if there is one, otherwise the store that `method` names. Errors: those of OpenStore.
Result<OpenedStore> OpenStoreOf(const ConnectOptions& options, const InitMethod& method,
                                const OpenStoreOptions& opening);

}  // namespace rondo
