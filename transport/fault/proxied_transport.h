// A TCP transport whose peers reach it through a proxy, so that faults happen to real sockets between real ranks:
//
//   auto tcp = MakeTcpTransport({.job = "test", .addresses = {"127.0.0.1"}});
//   auto transport = fault::MakeProxiedTransport(*tcp, proxy, "rank 1");     // Result<std::shared_ptr<Transport>>
//   options.transport = *transport;                                          // to make a communicator
//   self.address = (*transport)->Address();                                  // to join a rendezvous (Join)
//   proxy->Add({.stream = fault::LaneStream(0, 1), .from_byte = 4096}, fault::ResetPeer{});
//
// Peers connect to the rank through the proxy. When the rank connects to a peer, the connection goes through that
// peer's proxy, if there is one. docs/WIRE.md says which rank connects. A scope that uses a stream name does not depend
// on this.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "transport/fault/proxy.h"
#include "transport/transport.h"

namespace rondo::fault {

// Returns the published address of a TCP transport, in which every port is replaced by a port of the proxy that
// forwards to it. `name`: the name of these listeners, for Scope::listener. kInvalidArgument: the text is not an
// address of a TCP transport. Other errors: those of Proxy::Listen.
Result<std::string> ThroughProxy(const std::string& transport_address, Proxy& proxy, const std::string& name);

// Returns a transport that behaves like `tcp` but publishes the address of ThroughProxy. It can be the base of a
// shared-memory transport, but `tcp` must not itself be a shared-memory transport.
Result<std::shared_ptr<Transport>> MakeProxiedTransport(std::shared_ptr<Transport> tcp, std::shared_ptr<Proxy> proxy,
                                                        const std::string& name);

}  // namespace rondo::fault
