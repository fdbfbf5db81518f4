// A TCP transport whose peers reach it through a proxy, so that faults happen to real sockets between real ranks:
//
//   auto tcp = MakeTcpTransport({.job = "test", .addresses = {"127.0.0.1"}});
//   auto transport = fault::MakeProxiedTransport(*tcp, proxy, "rank 1");     // Result<std::shared_ptr<Transport>>
//   options.transport = *transport;                                          // a communicator's; or as self.address
//   self.address = (*transport)->Address();                                  // of a meeting (Join)
//   proxy->Add({.stream = fault::LaneStream(0, 1), .from_byte = 4096}, fault::ResetPeer{});
//
// Peers connect to the rank through the proxy. When the rank connects to a peer, it goes through that peer's proxy, if
// there is one. docs/WIRE.md says which rank connects; scopes by stream name do not depend on it.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "transport/fault/proxy.h"
#include "transport/transport.h"

namespace rondo::fault {

// The published address of a TCP transport, with every port replaced by one of the proxy's that leads there. `name`: of
// these listeners, for Scope::listener. kInvalidArgument: not the address of a TCP transport. Other errors: those of
// Proxy::Listen.
Result<std::string> ThroughProxy(const std::string& transport_address, Proxy& proxy, const std::string& name);

// The same transport with that address. It can be the base of shared memory, but not wrap it.
Result<std::shared_ptr<Transport>> MakeProxiedTransport(std::shared_ptr<Transport> tcp, std::shared_ptr<Proxy> proxy,
                                                        const std::string& name);

}  // namespace rondo::fault
