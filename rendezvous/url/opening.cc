#include "rendezvous/url/opening.h"

#include <utility>

#include "rendezvous/file_store.h"

namespace rondo {

TcpStoreClient::Options ClientOptions(const HostPort& address, const OpenStoreOptions& options) {
  TcpStoreClient::Options client;
  client.address = address;
  client.job = options.job;
  client.token = options.identity.token;
  client.deadline = options.deadline;
  client.clock = options.clock;
  client.logger = options.logger;
  client.tls = options.identity.tls;
  return client;
}

Result<OpenedStore> ConnectToStore(const HostPort& address, const OpenStoreOptions& options,
                                   std::shared_ptr<TcpStoreServer> server) {
  RONDO_ASSIGN(std::shared_ptr<Store> store, TcpStoreClient::Connect(ClientOptions(address, options)));
  return OpenedStore(std::move(store), std::move(server));
}

Result<std::shared_ptr<TcpStoreServer>> StartStoreServer(const std::string& host, std::uint16_t port,
                                                         const OpenStoreOptions& options) {
  TcpStoreServer::Options server;
  server.host = host;
  server.port = port;
  server.ports = options.ports;
  server.job = options.job;
  server.token = options.identity.token;
  server.deadline = options.deadline;
  server.logger = options.logger;
  server.clock = options.clock;
  server.tls = options.identity.tls;
  RONDO_ASSIGN(std::shared_ptr<TcpStoreServer> started, TcpStoreServer::Start(server));
  return started;
}

Result<OpenedStore> OpenFileStore(const std::string& path, bool refuse_leftover, const OpenStoreOptions& options) {
  FileStore::Options file;
  file.path = path;
  file.refuse_leftover = refuse_leftover;
  file.job = options.job;
  file.generation = options.generation;
  file.who = options.who;
  file.deadline = options.deadline;
  file.clock = options.clock;
  file.logger = options.logger;
  RONDO_ASSIGN(std::shared_ptr<Store> store, FileStore::Open(std::move(file)));
  return OpenedStore(std::move(store), nullptr);
}

}  // namespace rondo
