// The TCP store's server. It consists of a listener, one thread, and a TcpStoreService that answers the requests.
//
// Foreign clients (port scanners, browsers, TLS clients) may connect to the port without harm. A client must send a
// correct hello, and prove the job's token, within hello_timeout_ms. Otherwise it is dropped and counted. The log gets
// at most one line a second. A foreign client gets no answer, with one exception: a client that begins with TLS gets a
// TLS alert that says why it is rejected. The server allocates nothing for a length field before it has checked the
// length. When descriptors run out, it pauses accepting instead of spinning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/net/ports.h"
#include "base/result.h"
#include "base/tls.h"
#include "rendezvous/tcp_store_service.h"

namespace rondo {

class TcpStoreServer {
 public:
  struct Limits {
    TcpStoreService::Limits service;
    // The limit for connections without a complete hello. Beyond it, the oldest of these connections is closed. At its
    // start the server lowers the limit to at most a quarter of RLIMIT_NOFILE, so that the other descriptors remain for
    // clients of the job.
    std::size_t max_before_hello = 1024;
    int hello_timeout_ms = 5000;
    int accept_pause_ms = 50;  // the pause after accept failed because descriptors or memory ran out
    int backlog = 4096;        // connections that the kernel completes before the server accepts them
  };

  struct Options {
    std::string host;        // a name or number; its first address is bound. Empty: every interface, IPv4 and IPv6
    std::uint16_t port = 0;  // 0: any free port of `ports`
    PortRange ports;         // not set: the system chooses the port
    // A bound stream socket to use instead of host and port; it may listen already. The server owns it from Start on,
    // even if Start fails.
    std::optional<int> listen_fd;
    std::string job;  // processes of another job are refused; empty: every job is served
    // Clients that cannot prove this token are refused; null: clients that have a token are refused.
    std::shared_ptr<const JobToken> token;
    Limits limits;
    // The deadline for looking up `host` (a numeric address needs no lookup), and for waiting until a port is free that
    // only closed connections (TIME-WAIT) occupy.
    TimePoint deadline;
    Logger* logger = nullptr;  // must outlive the server
    // For deadlines and for the pause between log lines; null: SteadyClock.
    std::shared_ptr<const Clock> clock;
    // null: no TLS. Otherwise a client without TLS is refused; a Rondo client gets the reason in a hello reply.
    std::shared_ptr<const TlsContext> tls = nullptr;
  };

  struct Stats {
    std::uint64_t accepted = 0;  // accepted connections
    // Connections that ended without a complete hello: they timed out, used another protocol, or disconnected.
    std::uint64_t unknown = 0;
    std::uint64_t refused = 0;  // clients that sent a hello and were refused with a reason: version, job, a limit
    // Clients that failed to prove the job's token or to authenticate by TLS, or offered a token or TLS that the server
    // lacks.
    std::uint64_t auth_failed = 0;
    // Clients that were disconnected after the hello, because they violated the protocol or a limit.
    std::uint64_t broken = 0;
    std::uint64_t accept_pauses = 0;  // how many times accept failed because descriptors or memory ran out
    std::size_t clients = 0;          // the number of clients that are connected now and have completed their hello

    // Describes the rejected clients: "7 unknown clients dropped, 2 clients refused". Gives "" if there are none.
    std::string RejectedSummary() const;
  };

  // Binds the port and begins to serve. Errors:
  // - kAddressInUse: the port is taken, or every port of the range. The message names the address and what uses the
  //   port. Start waits until the deadline only if closed connections (TIME-WAIT) occupy the port; otherwise it fails
  //   at once.
  // - kInvalidArgument: the address is not one of this machine's.
  // - kUnreachable: the host has no address.
  // - kResource: a limit of the system.
  static Result<std::unique_ptr<TcpStoreServer>> Start(const Options& options);
  // Stops serving at once and closes the connections of all clients.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  // The bound address with the actual port: "127.0.0.1:29500", "[::]:29500".
  const std::string& address() const { return address_; }
  std::uint16_t port() const { return port_; }
  // "tcp://" and the address.
  std::string Describe() const { return "tcp://" + address_; }

  // Any thread may call the functions below.
  Stats stats() const;
  // Blocks until no client that completed its hello is connected. Gives false if a client is still connected at the
  // deadline. A process that serves its own job's store calls this, so that the store stays available until the other
  // ranks have read what they need.
  bool WaitUntilNoClients(TimePoint deadline) const;
  // Accepts no connection from now on and frees the port before it returns. Connected clients are still served.
  void TakeNoMore();

 private:
  class Loop;
  TcpStoreServer(std::unique_ptr<Loop> loop, std::string address, std::uint16_t port);

  const int owner_pid_;
  std::unique_ptr<Loop> loop_;
  const std::string address_;
  const std::uint16_t port_;
};

}  // namespace rondo
