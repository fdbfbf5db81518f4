// The TCP transport: works wherever sockets do.
//
//   TcpOptions options;
//   options.job = "training-7";
//   options.host_id = LocalHostId();
//   auto transport = MakeTcpTransport(std::move(options));   // Result<std::shared_ptr<Transport>>
//
// One control thread per transport listens, connects, does handshakes and carries control messages. Lanes are sockets
// that belong to the thread that owns their endpoint; the control thread never touches them after the handshake.
//
// fork(): a transport does not work in a child process, because the child has no control thread. Destroying the child's
// copy is safe and does not affect the parent. The copy's descriptors and memory stay until the child ends or calls
// exec. The child must not call any other function of the transport. SIGPIPE is never raised, and the control thread
// takes no signals.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/net/ports.h"
#include "base/result.h"
#include "base/tls.h"
#include "transport/lane_index.h"
#include "transport/transport.h"

namespace rondo {

class JobToken;

// Counts incoming connections, for tests and statistics; see TcpOptions::counters. Each accepted connection ends in
// exactly one of established, unknown, refused, auth_failed, evicted, retry_requested and abandoned.
struct TcpCounters {
  std::atomic<std::uint64_t> accepted{0};     // connections taken from the listening sockets
  std::atomic<std::uint64_t> established{0};  // handshakes that succeeded
  std::atomic<std::uint64_t> unknown{0};  // foreign clients: wrong bytes, silence, or closed before sending anything
  std::atomic<std::uint64_t> refused{0};  // clients of another job, generation, process or version
  std::atomic<std::uint64_t> auth_failed{0};      // unauthenticated clients: rejected by the job's token or by TLS
  std::atomic<std::uint64_t> evicted{0};          // the longest silent clients, dropped when too many were pending
  std::atomic<std::uint64_t> retry_requested{0};  // asked to try again: a limit, or such a connection exists
  std::atomic<std::uint64_t> abandoned{0};        // closed by the client before its verdict, or held too long
  std::atomic<std::uint64_t> held{0};             // clients that had to wait for their endpoint to open
  std::atomic<std::uint64_t> accept_errors{0};    // how often accepting paused because descriptors or memory ran out
};

struct TcpOptions {
  std::string job = {};          // processes of different jobs refuse each other; at most 255 bytes
  std::uint64_t generation = 0;  // processes of other generations are refused as stale
  std::string instance = {};     // identifies this process, different in every process; empty: a random text
  // Processes that cannot prove to know the token are refused, and none of their messages is used (base/access.h). It
  // must be equal in all processes of the job. Null: processes that have a token are refused.
  std::shared_ptr<const JobToken> token = nullptr;
  std::string host_id = {};                      // LocalHostId(); empty: no process counts as being on the same host
  std::shared_ptr<const Clock> clock = nullptr;  // paces repeated log lines (but no time limits); null: the machine's
  Logger* logger = nullptr;                      // outlives the transport
  // All connections use TLS. Processes without TLS, and processes that cannot prove to belong to the job, are refused
  // (kAuth). It must be equal in all processes of the job. Null: connections are not encrypted. With TLS,
  // split_local_lanes has no effect.
  std::shared_ptr<const TlsContext> tls = nullptr;
  std::shared_ptr<TcpCounters> counters = nullptr;

  std::vector<std::string> addresses = {};  // numeric local addresses to publish and listen on; empty: choose
  std::string interface = {};               // otherwise an expression (interfaces.h): "eth0", "^docker0,lo"
  std::uint16_t port = 0;                   // 0: any free port of `ports`
  PortRange ports = {};                     // not set: the range from which the system chooses

  // Sizes for SO_SNDBUF and SO_RCVBUF of lanes. 0 leaves the kernel's own tuning on, which is better: it begins small
  // and grows to the path's bandwidth times delay. A fixed size is cut to net.core.?mem_max.
  int socket_buffer_bytes = 0;
  // Algorithms to try in order on connections within this host, until one may be set. Loopback loses no packets and has
  // no shared queue. The system's algorithm may be bbr, whose pacing halves small writes (0.9 against 2.1 to 2.5 GB/s
  // each way at 64 KiB). An unprivileged process may not be allowed to set some algorithms (EPERM).
  std::vector<std::string> local_congestion_control = {"cubic", "reno"};
  // The same for connections to other hosts; empty: they keep the system's algorithm.
  std::vector<std::string> remote_congestion_control = {};
  bool split_local_lanes = false;  // one socket per direction between processes of one host (transport/tcp/lane.h)

  // Limits. The comment of each says what happens beyond it.
  std::size_t max_pending_handshakes = 64;               // the oldest silent connection is dropped
  std::size_t max_held_connections = 256;                // the client is asked to try again
  std::uint32_t max_lanes_per_peer = kMaxLanesPerPeer;   // lane indices stay below it; Open gives kResource
  int listen_backlog = 1024;                             // the kernel makes clients wait
  Duration handshake_timeout = std::chrono::seconds(5);  // in which a hello or a first reply must arrive
  Duration held_timeout = std::chrono::seconds(60);      // in which the endpoint of a connection must open
  // Until some address of a peer must take a connection; shorter if EndpointConfig::connect_timeout is shorter. A
  // running host answers at once, so a longer silence means a firewall, a wrong route or a dead host.
  Duration reach_timeout = std::chrono::seconds(10);
  Duration silence_timeout =
      std::chrono::seconds(30);  // after that long a control connection to a silent machine counts as lost
};

// kInvalidArgument: wrong addresses or interface, or a text that is too long. kAddressInUse: the fixed port, or all of
// `ports`, are in use. kResource: no descriptors or threads are left. Thread rule of the result: transport/transport.h;
// an Endpoint must be destroyed before its observer.
Result<std::shared_ptr<Transport>> MakeTcpTransport(TcpOptions options);

// The addresses in a TCP transport's Address(), numeric, best first. Addresses that are valid only on this host or link
// are included only if there are no others. Use them to publish another port of the same process.
std::vector<std::string> PublishedHosts(const std::string& transport_address);

// Checks that interfaces of this host have all these addresses. kInvalidArgument: the message names an address that
// they do not have, and lists those that they have.
Status CheckLocalAddresses(const std::vector<std::string>& addresses);

// Returns boot id and the inode of the network namespace: equal on two processes only if they share kernel and network.
// kUnsupported: the machine does not provide one of them; the message says why. `root`: the folder that holds /proc.
Result<std::string> FindHostId(const std::string& root = "");
// The same; empty on error.
std::string LocalHostId();
// For messages: why a peer does not count as being on this host although it may be the same machine. One of the two has
// no host id, or both have separate network namespaces. "": it is another machine, or this host.
std::string WhyNotOneHost(const std::string& own, const std::string& peer);
std::string LocalHostName();

}  // namespace rondo
