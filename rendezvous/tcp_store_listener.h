// The listening socket of a TCP store's server, for tcp_store_server.cc.
#pragma once

#include "base/clock.h"
#include "base/net/fd.h"
#include "base/result.h"
#include "rendezvous/tcp_store_server.h"

namespace rondo {

// Opens the socket that the options name: options.listen_fd, the first address of options.host, or every interface.
// "Every interface" means [::], which also accepts IPv4, or 0.0.0.0 if IPv6 is off. Errors: as TcpStoreServer::Start.
Result<Fd> OpenListener(const TcpStoreServer::Options& options, const Clock& clock);

}  // namespace rondo
