// A TCP transport whose peers reach it through a proxy, so that faults happen to real sockets between real ranks:
//
//   auto tcp = MakeTcpTransport({.job = "test", .addresses = {"127.0.0.1"}});
//   auto transport = fault::MakeProxiedTransport(*tcp, proxy, "rank 1");     // Result<std::shared_ptr<Transport>>
//   options.transport = *transport;                                          // a communicator's; or as self.address
//   self.address = (*transport)->Address();                                  // of a meeting (Join)
//   proxy->Add({.stream = fault::LaneStream(0, 1), .from_byte = 4096}, fault::ResetPeer{});
//
// What the rank listens at is reached through the proxy; what it calls itself goes through the proxy of whom it calls,
// if that one has any. Who calls whom is docs/WIRE.md's business; scopes by stream name do not depend on it.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "transport/fault/proxy.h"
#include "transport/transport.h"

namespace rondo::fault {

// The published address of a TCP transport with every port replaced by one of the proxy's, which leads there; all else
// is kept. `name`: of these listeners, for Scope::listener. kInvalidArgument: not the address of a TCP transport.
// Errors of Proxy::Listen.
Result<std::string> ThroughProxy(const std::string& transport_address, Proxy& proxy, const std::string& name);

// The same transport with that address. It goes beneath shared memory, not above it.
Result<std::shared_ptr<Transport>> MakeProxiedTransport(std::shared_ptr<Transport> tcp, std::shared_ptr<Proxy> proxy,
                                                        const std::string& name);

}  // namespace rondo::fault
