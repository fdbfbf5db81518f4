// The TCP transport. It works wherever sockets work.
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
  std::atomic<std::uint64_t> unknown{0};      // foreign clients: they sent wrong bytes, or no complete hello
  std::atomic<std::uint64_t> refused{0};      // clients of another job, generation, process or version
  std::atomic<std::uint64_t> auth_failed{0};  // unauthenticated clients: rejected by the job's token or by TLS
  // Clients dropped because too many were pending. The client that was silent for longest is dropped first.
  std::atomic<std::uint64_t> evicted{0};
  // Clients that must try again: a limit was reached, this process lacked a resource, or the two ranks use another
  // control connection.
  std::atomic<std::uint64_t> retry_requested{0};
  // connections that the client closed before they were accepted or refused, or that were held too long
  std::atomic<std::uint64_t> abandoned{0};
  std::atomic<std::uint64_t> held{0};           // clients that had to wait for their endpoint to open
  std::atomic<std::uint64_t> accept_errors{0};  // number of pauses in accepting, after descriptors or memory ran out
};

struct TcpOptions {
  std::string job = {};          // at most 255 bytes; processes of different jobs refuse each other
  std::uint64_t generation = 0;  // processes of other generations are refused as stale
  std::string instance = {};     // identifies this process, different in every process; empty: a random text
  // Processes that cannot prove that they know the token are refused, and none of their messages is used
  // (base/access.h). All processes of a job need the same token. Null: processes that have a token are refused.
  std::shared_ptr<const JobToken> token = nullptr;
  std::string host_id = {};  // from LocalHostId(); empty: no process counts as being on this host
  // Limits the rate of log lines (not used for timeouts); null: the machine's clock.
  std::shared_ptr<const Clock> clock = nullptr;
  Logger* logger = nullptr;  // must outlive the transport
  // If set, all connections use TLS. Processes without TLS, and processes that cannot prove that they belong to the
  // job, are refused (kAuth). It must be set in all processes of the job or in none. Null: connections are not
  // encrypted. With TLS, split_local_lanes has no effect.
  std::shared_ptr<const TlsContext> tls = nullptr;
  std::shared_ptr<TcpCounters> counters = nullptr;

  // Numeric local addresses to publish and listen on; empty: `interface` determines them.
  std::vector<std::string> addresses = {};
  std::string interface = {};  // an expression that selects interfaces (interfaces.h): "eth0", "^docker0,lo"
  std::uint16_t port = 0;      // 0: any free port of `ports`
  PortRange ports = {};        // if not set: the system chooses from its own range

  // Sizes for SO_SNDBUF and SO_RCVBUF of lanes. 0 leaves the kernel's own tuning on, which is better: it begins with
  // small buffers and lets them grow to the path's bandwidth times delay. A fixed size is cut to net.core.?mem_max.
  int socket_buffer_bytes = 0;
  // Congestion control algorithms for connections within this host. They are tried in order until one can be set. The
  // system's algorithm may be bbr, whose pacing more than halves the speed of small writes (0.9 instead of 2.1 to 2.5
  // GB/s each way at 64 KiB). Pacing gains nothing here, because loopback loses no packets and has no shared queue. An
  // unprivileged process may not be allowed to set some algorithms (EPERM).
  std::vector<std::string> local_congestion_control = {"cubic", "reno"};
  // Congestion control algorithms for connections to other hosts. Empty: these connections keep the system's algorithm.
  std::vector<std::string> remote_congestion_control = {};
  bool split_local_lanes = false;  // one socket per direction between processes of one host (transport/tcp/lane.h)

  // Limits:
  std::size_t max_pending_handshakes = 64;               // at this limit, the oldest silent connection is dropped
  std::size_t max_held_connections = 256;                // at this limit, further clients are asked to try again
  std::uint32_t max_lanes_per_peer = kMaxLanesPerPeer;   // Open returns kResource for this index and higher ones
  int listen_backlog = 1024;                             // at this limit, the kernel makes clients wait
  Duration handshake_timeout = std::chrono::seconds(5);  // limits the wait for a hello or for the first reply
  Duration held_timeout = std::chrono::seconds(60);  // limits how long a connection waits until its endpoint is open
  // How long to wait until some address of a peer accepts a connection; less if EndpointConfig::connect_timeout is
  // shorter. A running host answers at once, so a longer silence means a firewall, a wrong route or a dead host.
  Duration reach_timeout = std::chrono::seconds(10);
  Duration silence_timeout =
      std::chrono::seconds(30);  // a control connection counts as lost if the other machine is silent for so long
};

// kInvalidArgument: wrong addresses or interface, or a text that is too long. kAddressInUse: the fixed port, or all of
// `ports`, are in use. kResource: no descriptors or threads are left. Thread rule of the result: transport/transport.h;
// an Endpoint must be destroyed before its observer.
Result<std::shared_ptr<Transport>> MakeTcpTransport(TcpOptions options);

// The numeric addresses in a TCP transport's Address(), best first. Addresses that are valid only on this host or link
// are included only if there are no others. A process can use these addresses to publish another port of its own.
std::vector<std::string> PublishedHosts(const std::string& transport_address);

// Checks that interfaces of this host have all these addresses. kInvalidArgument: the message names an address that
// they do not have, and lists those that they have.
Status CheckLocalAddresses(const std::vector<std::string>& addresses);

// Returns the boot id and the inode of the network namespace. Two processes get the same text only if they share a
// kernel and a network namespace. kUnsupported: the machine does not provide one of the two; the message says why.
// `root`: the folder that holds /proc.
Result<std::string> FindHostId(const std::string& root = "");
// Like FindHostId, but returns an empty text on error.
std::string LocalHostId();
// Returns, for messages, why a peer does not count as being on this host although it may be the same machine: one of
// the two has no host id, or they have separate network namespaces. Returns "" if the peer is on another machine, or on
// this host.
std::string WhyNotOneHost(const std::string& own, const std::string& peer);
std::string LocalHostName();

}  // namespace rondo
