// Makes a communicator from a rendezvous URL in one call: opens the store, makes the transports, performs the
// rendezvous and creates the communicator. No peer is connected when Connect returns: a connection is made when an
// operation first needs it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/net/ports.h"
#include "base/tls.h"
#include "collectives/communicator.h"
#include "rendezvous/environment.h"

namespace rondo {

class Store;         // rendezvous/store.h
struct TcpCounters;  // transport/tcp/tcp.h

// How ranks reach each other.
enum class Path : std::uint8_t {
  kAuto,  // shared memory within a host; between hosts RDMA if both ranks have a port and TLS is off, otherwise TCP
  kTcp,   // sockets, also within a host
  kShm,   // as kAuto, but fails if ranks are on several hosts; if the system forbids shared memory, sockets are used
  kIb,    // RDMA, also within a host; an error if it is not available, or if TLS is on
};

struct ConnectOptions {
  // One of
  //   - tcp://host:port: rank 0 serves the store there, unless `external_store` (rondo run, rondo store) says that
  //     another process does;
  //   - file:///path: a file that all ranks can access;
  //   - env://: the launcher's settings (rondo run, torchrun, mpirun, mpiexec, srun), or RANK, WORLD_SIZE, MASTER_ADDR
  //     and MASTER_PORT set by hand; read through `environment`. With MPICH, and with srun --mpi=pmi2, a process can
  //     use env:// only once.
  std::string rendezvous = {};
  // If not null, the rendezvous uses this store, and `rendezvous` is ignored. Rank and world size must be given then;
  // the launcher's environment variables are not read. A network store must protect itself: the token only
  // authenticates ranks to each other.
  std::shared_ptr<Store> store = nullptr;
  // The communicator may use `store` during its whole life. When a rank closes, a separate thread writes the rank's
  // goodbye to the store. Ranks that were never connected to the closed rank read the goodbye there
  // (collectives/communicator/kept_goodbyes.h). A store that `rendezvous` names is always used in this way if it
  // outlives the ranks, as the stores of rondo run and of other external processes do.
  bool keeps_store = true;
  std::optional<Rank> rank = {};       // nullopt: from the URL or environment, otherwise by order of arrival
  std::optional<int> world_size = {};  // nullopt: from the URL or environment
  // The job's secret, equal on all ranks: printable ASCII without blanks, at most 1024 bytes. 32 random bytes in
  // hexadecimal are a good choice (base/access.h). A process that cannot prove that it has the token is rejected as a
  // peer, and as a client or server of a TCP store. With file:// the permissions of the file protect the store
  // (docs/SECURITY.md). "": the environment's RONDO_TOKEN, which rondo run sets for its ranks; if that is not set
  // either, there is no token.
  std::string token = {};
  // Name of the job. Processes of different jobs refuse each other. "": the launcher's name for the job, or "default".
  std::string job = {};
  std::uint64_t generation = 0;  // distinguishes successive rendezvous of one job on one store
  bool external_store = false;
  // the local addresses to use (IPoIB is possible, too); empty: chosen by reachability
  std::vector<std::string> addresses = {};
  // TLS 1.3 on all TCP connections, to ranks and to the store. All ranks must use the same mode (base/tls.h,
  // docs/TLS.md). Empty fields are filled from the environment (RONDO_TLS and others: rendezvous/tls_settings.h);
  // nullopt: all fields are filled from there. Files are read again when the communicator is rebuilt. Bytes in shared
  // memory are not encrypted.
  std::optional<TlsOptions> tls = {};
  std::string interface = {};  // forces interfaces: "eth0,ib0", "^docker0,lo", "=eth0", "10.0.0.0/8"
  // The TCP ports on which this process listens: for other ranks, and for the store if this process serves one and its
  // port was not given. Use it with firewalls that block all other ports. nullopt: the environment's RONDO_PORTS,
  // "FIRST-LAST"; if that is not set either, the system chooses the ports.
  std::optional<PortRange> ports = {};
  Path path = Path::kAuto;  // equal on all ranks
  // This rank's RDMA port: a device "mlx5_0", a port "mlx5_0:1", or one of its addresses. Several may be joined by "+":
  // if one fails, the next is used. "": the ports of `addresses` or `interface` if these are forced, otherwise all
  // active ports, the fastest first.
  std::string rdma_port = {};
  // Timeout of the rendezvous, and default of every operation. nullopt: the environment's RONDO_TIMEOUT in seconds,
  // which rondo run --timeout sets, otherwise 60 s.
  std::optional<Duration> timeout = {};
  // Returns the values of environment variables; null: as if no variable were set. The library itself never reads the
  // process's environment.
  Environment environment = {};
  Logger* logger = nullptr;
  // Counts incoming connections at this process's TCP port, also from foreign clients, over all generations of this
  // process. Null: they are not counted.
  std::shared_ptr<TcpCounters> tcp_counters = nullptr;
  // Connect fills in rank, peers, transport, logger, timeout, job and generation. If there is no profile, it uses the
  // file that the environment's RONDO_PROFILE names, otherwise the default profile.
  CommunicatorOptions communicator = {};
  // Keeps the store after the rendezvous, so that Communicator::Rebuild can continue after ranks were lost. Costs an
  // idle connection (or an open file) per rank. Equal on all ranks. A rebuilt communicator can be rebuilt, too. The
  // store must outlive the ranks, as the stores of rondo run, rondo store and file:// do. A store that a rank serves
  // ends with that rank.
  bool rebuildable = false;
  // This process joins a running job (`generation` is that of the job's first rendezvous). It is admitted when the
  // job's ranks rebuild with room for joiners: Connect waits for that, within `timeout`. It is then assigned its rank
  // and world size. Implies rebuildable. The environment may set it, too: RONDO_JOIN=1, which rondo run --restarts
  // sets.
  bool join = false;
};

// Returns the value of a variable in this process's environment. Use it as ConnectOptions::environment, in main() and
// other outermost code.
std::optional<std::string> ProcessEnvironment(const std::string& name);

// The values of RONDO_TIMEOUT (seconds), RONDO_PORTS (a range) and RONDO_PROFILE (a file), which Connect uses if its
// options give none. For code that needs these values before it calls Connect. nullopt or null if the variable is not
// set or empty. Errors name the variable.
Result<std::optional<Duration>> TimeoutIn(const Environment& environment);
Result<std::optional<PortRange>> PortsIn(const Environment& environment);
Result<std::shared_ptr<const Profile>> ProfileIn(const Environment& environment);

// Performs the rendezvous within options.timeout and returns this rank's communicator. The store is closed afterwards,
// unless options.rebuildable is set. A rank that serves the store does so until the other ranks have completed the
// rendezvous, too.
//
// If one rank cannot take part, the rendezvous fails on all ranks, with that rank's name and reason (for example, it
// has no free descriptor or port, or was given an address that it does not have). The next attempt must use another
// generation.
//
// kAuth: this process and a peer (or the store) have different tokens, or only one of them has a token, or they could
// not prove by TLS that they belong to one job. Other errors: those of ParseInitMethod, FindTls, ReadProfile,
// TlsContext::Make, OpenStore, Join, MakeTcpTransport and Communicator::Create, and for joiners those of
// RegroupAsJoiner. Each error names the part at fault.
Result<std::unique_ptr<Communicator>> Connect(const ConnectOptions& options);

// The result of Rendezvous, which makes no communicator.
struct RendezvousResult {
  Rank rank = kNoRank;
  int world_size = 0;
  // The store of the rendezvous. The library uses the keys "rondo/...". If this process serves the store, the store
  // ends with the last copy of this pointer.
  std::shared_ptr<Store> store;
};

// Performs the rendezvous as Connect does, and returns rank, world size and store. It is for programs that use the
// store themselves. From options.communicator only the values that must be equal on all ranks are used. Errors: those
// of Connect.
Result<RendezvousResult> Rendezvous(const ConnectOptions& options);

}  // namespace rondo
