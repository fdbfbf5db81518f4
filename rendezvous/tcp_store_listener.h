// The socket on which a TCP store's server listens. For tcp_store_server.cc.
#pragma once

#include "base/clock.h"
#include "base/net/fd.h"
#include "base/result.h"
#include "rendezvous/tcp_store_server.h"

namespace rondo {

// What options.listen_fd, host and port name: an adopted descriptor, the host's first address, or every interface: [::]
// serves IPv4 too, 0.0.0.0 where IPv6 is off. Errors: TcpStoreServer::Start.
Result<Fd> OpenListener(const TcpStoreServer::Options& options, const Clock& clock);

}  // namespace rondo
