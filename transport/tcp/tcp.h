// The TCP transport: works wherever sockets do.
//
//   TcpOptions options;
//   options.job = "training-7";
//   options.host_id = LocalHostId();
//   auto transport = MakeTcpTransport(std::move(options));   // Result<std::shared_ptr<Transport>>
//
// One control thread per transport listens, connects, shakes hands and carries control messages. Lanes are sockets that
// belong to the thread that owns their endpoint; the control thread never touches them after the handshake.
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

// What came in; for tests and statistics. Hand one in to look at it. A connection that was taken ends in exactly one of
// established, unknown, refused, auth_failed, evicted, retry_requested and abandoned, whatever else is counted of it.
struct TcpCounters {
  std::atomic<std::uint64_t> accepted{0};     // connections taken from the listeners
  std::atomic<std::uint64_t> established{0};  // handshakes that ended well
  std::atomic<std::uint64_t> unknown{0};      // no Rondo: wrong bytes, silence, or gone before saying anything
  std::atomic<std::uint64_t> refused{0};      // a Rondo that does not belong here
  std::atomic<std::uint64_t> auth_failed{0};  // one that did not prove to belong: by the job's token, or by TLS
  std::atomic<std::uint64_t> evicted{0};      // dropped as the oldest silent one when too many were pending
  std::atomic<std::uint64_t> retry_requested{
      0};                                       // a Rondo that is to come again: a limit, or one such connection stands
  std::atomic<std::uint64_t> abandoned{0};      // a Rondo, or one that spoke TLS, that went before its answer, or a
                                                // Rondo that was held too long
  std::atomic<std::uint64_t> held{0};           // had to wait for their endpoint to open
  std::atomic<std::uint64_t> accept_errors{0};  // times accepting paused for want of descriptors or memory
};

struct TcpOptions {
  std::string job = {};          // processes of different jobs refuse each other; at most 255 bytes
  std::uint64_t generation = 0;  // of the group; other generations are refused as stale
  std::string instance = {};     // this process, new in every process; empty: a random one
  // Processes that cannot prove to know it are refused, and believed in nothing (base/access.h); equal in all of the
  // job. Null: who has a token is refused.
  std::shared_ptr<const JobToken> token = nullptr;
  std::string host_id = {};                      // LocalHostId(); empty: no process counts as being on the same host
  std::shared_ptr<const Clock> clock = nullptr;  // paces repeated log lines; null: the machine's. (Time limits of
                                                 // connections are real time, as connections are)
  Logger* logger = nullptr;                      // outlives the transport
  // Every connection is TLS's: who cannot prove to belong is refused (kAuth), and so is who does not speak it. Equal on
  // all processes of the job. Null: in the clear. With it split_local_lanes has no effect.
  std::shared_ptr<const TlsContext> tls = nullptr;
  std::shared_ptr<TcpCounters> counters = nullptr;

  std::vector<std::string> addresses = {};  // numeric local addresses to publish and listen on; empty: choose
  std::string interface = {};               // else an expression (transport/tcp/interfaces.h): "eth0", "^docker0,lo"
  std::uint16_t port = 0;                   // 0: any free one of `ports`
  PortRange ports = {};                     // not set: of those that the system chooses

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
  // For some address of a peer to take a connection; less where EndpointConfig::connect_timeout is less. A host that is
  // there answers at once, so silence for longer is a firewall, a wrong route or a dead host.
  Duration reach_timeout = std::chrono::seconds(10);
  Duration silence_timeout =
      std::chrono::seconds(30);  // a control connection whose other machine is mute counts as lost
};

// kInvalidArgument: addresses, interface, or a text too long. kAddressInUse: the fixed port, or all of `ports`.
// kResource: descriptors, threads. Thread rule of the result: transport/transport.h; an Endpoint must be destroyed
// before its observer.
Result<std::shared_ptr<Transport>> MakeTcpTransport(TcpOptions options);

// The addresses in a TCP transport's Address(): numeric, best first, those that mean something on this host or link
// alone only where there is nothing else. For publishing another port of the same process.
std::vector<std::string> PublishedHosts(const std::string& transport_address);

// Whether interfaces of this host have all of these. kInvalidArgument names the one they have not, and lists those
// there are.
Status CheckLocalAddresses(const std::vector<std::string>& addresses);

// Equal on two processes only if they share kernel and network: boot id and the inode of the network namespace.
// kUnsupported: the machine does not say, and why. `root`: the folder that holds /proc.
Result<std::string> FindHostId(const std::string& root = "");
// The same; empty where the machine does not say.
std::string LocalHostId();
// Why a peer does not count as being on this host, in words, where that is not simply another machine: one of the two
// cannot tell, or the two have networks of their own. "": it is another machine, or this host.
std::string WhyNotOneHost(const std::string& own, const std::string& peer);
std::string LocalHostName();

}  // namespace rondo
