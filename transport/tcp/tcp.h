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
// fork(): a transport does not work in a child, whose copy lacks the control thread. Destroying the child's copy is
// safe and touches nothing that the parent uses (its descriptors and memory stay until the child ends or calls exec,
// which closes them). Everything else must not be called there. SIGPIPE is never raised, and the control thread takes
// no signals.
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
  std::atomic<std::uint64_t> established{0};  // handshakes that ended well
  std::atomic<std::uint64_t> unknown{0};  // foreign clients: wrong bytes, silence, or closed before sending anything
  std::atomic<std::uint64_t> refused{0};  // clients of another job, generation, process or version
  std::atomic<std::uint64_t> auth_failed{0};      // unauthenticated clients: by the job's token, or by TLS
  std::atomic<std::uint64_t> evicted{0};          // the longest silent ones when too many were pending
  std::atomic<std::uint64_t> retry_requested{0};  // told to try again: a limit, or there is such a connection already
  std::atomic<std::uint64_t> abandoned{0};        // closed by the client before its answer, or held too long
  std::atomic<std::uint64_t> held{0};             // clients that had to wait for their endpoint to open
  std::atomic<std::uint64_t> accept_errors{0};    // how often accepting paused because descriptors or memory ran out
};

struct TcpOptions {
  std::string job = {};          // processes of different jobs refuse each other; at most 255 bytes
  std::uint64_t generation = 0;  // of the group; other generations are refused as stale
  std::string instance = {};     // this process, new in every process; empty: a random one
  // Processes that cannot prove to know it are refused, and none of their messages is used (base/access.h). Equal in
  // all processes of the job. Null: processes that have a token are refused.
  std::shared_ptr<const JobToken> token = nullptr;
  std::string host_id = {};                      // LocalHostId(); empty: no process counts as being on the same host
  std::shared_ptr<const Clock> clock = nullptr;  // paces repeated log lines; null: the machine's. (Time limits of
                                                 // connections are real time, as connections are)
  Logger* logger = nullptr;                      // outlives the transport
  // All connections use TLS. Processes without TLS, and those that cannot prove to belong, are refused (kAuth). Equal
  // in all processes of the job. Null: in the clear. With it split_local_lanes has no effect.
  std::shared_ptr<const TlsContext> tls = nullptr;
  std::shared_ptr<TcpCounters> counters = nullptr;

  std::vector<std::string> addresses = {};  // numeric local addresses to publish and listen on; empty: choose
  std::string interface = {};               // otherwise an expression (interfaces.h): "eth0", "^docker0,lo"
  std::uint16_t port = 0;                   // 0: any free one of `ports`
  PortRange ports = {};                     // not set: those that the system chooses from

  // Sizes for SO_SNDBUF and SO_RCVBUF of lanes; 0 leaves the kernel's own tuning on, which is the better choice: it
  // begins small and grows to the path's bandwidth times delay, while a fixed size is cut to net.core.?mem_max.
  int socket_buffer_bytes = 0;
  // Tried in order on connections within this host, until one may be set; other paths keep the system's. Loopback loses
  // nothing and has no queue to be gentle with: the default here may be bbr, whose pacing halves small writes (0.9
  // against 2.1 to 2.5 GB/s each way at 64 KiB). An unprivileged process may be limited to others (EPERM).
  std::vector<std::string> local_congestion_control = {"cubic", "reno"};
  // The same for connections to other hosts.
  std::vector<std::string> remote_congestion_control = {};
  bool split_local_lanes = false;  // one socket per direction between processes of one host (transport/tcp/lane.h)

  // Limits, each with what happens beyond it.
  std::size_t max_pending_handshakes = 64;               // the oldest silent connection is dropped
  std::size_t max_held_connections = 256;                // the client is told to try again
  std::uint32_t max_lanes_per_peer = kMaxLanesPerPeer;   // lane indices stay below it; Open gives kResource
  int listen_backlog = 1024;                             // the kernel makes clients wait
  Duration handshake_timeout = std::chrono::seconds(5);  // for a hello to come, or a first reply
  Duration held_timeout = std::chrono::seconds(60);      // for the endpoint of a held connection to open
  // For some address of a peer to take a connection; less if EndpointConfig::connect_timeout is less. A host that runs
  // answers at once, so a longer silence means a firewall, a wrong route or a dead host.
  Duration reach_timeout = std::chrono::seconds(10);
  Duration silence_timeout =
      std::chrono::seconds(30);  // then a control connection whose other machine is silent counts as lost
};

// kInvalidArgument: addresses, interface, or a text too long. kAddressInUse: the fixed port, or all of `ports`.
// kResource: descriptors, threads. Thread rule of the result: transport/transport.h; an Endpoint must be destroyed
// before its observer.
Result<std::shared_ptr<Transport>> MakeTcpTransport(TcpOptions options);

// The addresses in a TCP transport's Address(), numeric, best first. Those that are valid on this host or link alone
// are there only if there are no others. For publishing another port of the same process.
std::vector<std::string> PublishedHosts(const std::string& transport_address);

// Whether interfaces of this host have all of these. kInvalidArgument names one that they do not have, and lists those
// that they have.
Status CheckLocalAddresses(const std::vector<std::string>& addresses);

// Equal on two processes only if they share kernel and network: boot id and the inode of the network namespace.
// kUnsupported: the machine does not say, and why. `root`: the folder that holds /proc.
Result<std::string> FindHostId(const std::string& root = "");
// The same; empty if the machine does not say.
std::string LocalHostId();
// Why a peer does not count as being on this host although it may be the same machine, for messages: one of the two
// does not know its host, or both have networks of their own. "": it is another machine, or this host.
std::string WhyNotOneHost(const std::string& own, const std::string& peer);
std::string LocalHostName();

}  // namespace rondo
