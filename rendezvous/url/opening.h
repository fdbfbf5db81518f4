// Helpers that open a store with OpenStoreOptions, for open_store.cc and open_launch.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "rendezvous/tcp_store_client.h"
#include "rendezvous/tcp_store_server.h"
#include "rendezvous/url/open_store.h"

namespace rondo {

TcpStoreClient::Options ClientOptions(const HostPort& address, const OpenStoreOptions& options);

// Connects a client to the store at `address`. The result shares ownership of `server`, which may be null.
Result<OpenedStore> ConnectToStore(const HostPort& address, const OpenStoreOptions& options,
                                   std::shared_ptr<TcpStoreServer> server);

// `host` "" means every interface; port 0 means any free port of options.ports.
Result<std::shared_ptr<TcpStoreServer>> StartStoreServer(const std::string& host, std::uint16_t port,
                                                         const OpenStoreOptions& options);

// See FileStore::Options::refuse_leftover.
Result<OpenedStore> OpenFileStore(const std::string& path, bool refuse_leftover, const OpenStoreOptions& options);

}  // namespace rondo
