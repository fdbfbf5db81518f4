// What Connect is made of, for the parts of it that a rebuild does again. Not public.
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

// New in every process and generation: tells a restarted rank, and an older generation's, from this one.
std::string NewInstance();

// How this process presents itself in one generation.
struct Presence {
  Member self;
  std::shared_ptr<Transport> transport;
  std::vector<std::string> hosts;  // the numeric addresses that its transport publishes
};

// A transport made for this generation alone, and the words for it. REQUIRES: options.communicator.profile, and
// options.token and options.tls are what TokenText and FindTls gave, and `identity` is made of. Errors: those of the
// transports.
Result<Presence> MakePresence(const ConnectOptions& options, const Identity& identity, const std::string& job,
                              std::uint64_t generation, const std::shared_ptr<const Clock>& clock);

// What a communicator is made of when its ranks have met. kInvalidArgument: shared memory alone was asked for, and they
// are on several hosts.
Result<CommunicatorOptions> OptionsAfterMeeting(const ConnectOptions& options, const std::string& job,
                                                const Membership& membership, std::shared_ptr<Transport> transport,
                                                std::shared_ptr<const Clock> clock);

// The caller's store, if there is one, else what `method` names. Errors: those of OpenStore.
Result<OpenedStore> OpenStoreOf(const ConnectOptions& options, const InitMethod& method,
                                const OpenStoreOptions& opening);

}  // namespace rondo
