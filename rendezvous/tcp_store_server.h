// The TCP store's server: a listener, one thread, and a TcpStoreService behind it.
//
// It serves its port beside foreign clients (port scanners, browsers, TLS clients) without harm: who does not say a
// correct hello within hello_timeout_ms, the proof of the job's token included, is dropped, counted, and logged at most
// once a second. None gets an answer, but for the alert by which who speaks TLS learns that the other side does not, or
// why it is not let in. It never trusts a length it was told with memory, and when descriptors run out it pauses
// accepting instead of spinning.
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
    // Connections that have not said hello; one more pushes out the oldest. Never more than a quarter of the
    // descriptors that the process may have (RLIMIT_NOFILE when the server starts): the rest is for who belongs here.
    std::size_t max_before_hello = 1024;
    int hello_timeout_ms = 5000;
    int accept_pause_ms = 50;  // after accept failed for want of descriptors or memory
    int backlog = 4096;        // connections the kernel completes before we accept them
  };

  struct Options {
    std::string host;        // a name or number whose first address is bound; empty: every interface, both families
    std::uint16_t port = 0;  // 0: any free one of `ports`
    PortRange ports;         // not set: of those that the system chooses
    // A bound stream socket to use instead of host and port (listening or not yet). The server owns it from Start on,
    // also if that fails.
    std::optional<int> listen_fd;
    std::string job;                        // refuses processes of another job; empty: serves all
    std::shared_ptr<const JobToken> token;  // refuses who cannot prove to know it; null: who has one
    Limits limits;
    // Of looking up `host` (a number needs none), and of waiting for a port that nothing keeps but connections that
    // have ended (TIME-WAIT).
    TimePoint deadline;
    Logger* logger = nullptr;            // outlives the server
    std::shared_ptr<const Clock> clock;  // of the log's rate; null: the machine's
    // null: in the clear. Else who does not speak TLS is refused, and told so if it is a client of ours.
    std::shared_ptr<const TlsContext> tls = nullptr;
  };

  struct Stats {
    std::uint64_t accepted = 0;     // connections
    std::uint64_t unknown = 0;      // no hello in time, or not ours, or gone before it
    std::uint64_t refused = 0;      // said hello and were told why not: version, job, limit
    std::uint64_t auth_failed = 0;  // did not prove to know the job's token, or to belong by TLS; or offer what we lack
    std::uint64_t broken = 0;       // dropped after their hello for breaking the protocol or a limit
    std::uint64_t accept_pauses = 0;  // accept found no descriptor or memory
    std::size_t clients = 0;          // now, after hello

    // The clients that were rejected, in words: "7 unknown clients dropped, 2 clients refused"; "": none.
    std::string RejectedSummary() const;
  };

  // Binds and begins to serve. kAddressInUse names the address and says what has the port, at once unless it frees
  // itself (deadline), or which range is used up; kInvalidArgument one that is not this machine's; kUnreachable a host
  // that has none; kResource a system limit.
  static Result<std::unique_ptr<TcpStoreServer>> Start(const Options& options);
  // Ends at once: clients find their connections closed.
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  // The address bound, the port a real one: "127.0.0.1:29500", "[::]:29500".
  const std::string& address() const { return address_; }
  std::uint16_t port() const { return port_; }
  // "tcp://" and the address.
  std::string Describe() const { return "tcp://" + address_; }

  // Thread rule of these: any thread.
  Stats stats() const;
  // Blocks until no client (that said hello) is connected, and says whether that came true by the deadline. For the
  // process that serves the store of its own job: it stays until the others have what they came for.
  bool WaitUntilNoClients(TimePoint deadline) const;
  // Who is connected is served on, nobody else from when this returns: the port is free.
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
