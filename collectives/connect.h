// From a rendezvous URL to a communicator in one call: store, transports, meeting, communicator. No peer is connected
// yet when it returns: a connection is made when an operation first needs it.
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
  kAuto,  // shared memory between ranks of one host; to others RDMA where both have a port and TLS is off, else TCP
  kTcp,   // sockets, also within a host
  kShm,   // as kAuto, but ranks of several hosts are an error; where the system forbids sharing, sockets still serve
  kIb,    // RDMA, also within a host; where it cannot be, an error. Not with TLS
};

struct ConnectOptions {
  // One of
  //   - tcp://host:port: rank 0 serves the store there, unless `external_store` (rondo run, rondo store) says that
  //     somebody does;
  //   - file:///path: a file that all ranks see;
  //   - env://: what the launcher says (rondo run, torchrun, mpirun, mpiexec, srun), or RANK, WORLD_SIZE, MASTER_ADDR
  //     and MASTER_PORT by hand; read through `environment`. MPICH and Slurm by PMI-2 serve one such meeting a process.
  std::string rendezvous = {};
  // Not null: ranks meet through this store, and rendezvous is not looked at. Rank and world size are then to be given;
  // what the environment says of a launch is not read. A store over a network guards itself: the token is still what
  // ranks prove to each other.
  std::shared_ptr<Store> store = nullptr;
  // The communicator may use `store` for its whole life. A rank that closes writes its goodbye there, from a thread of
  // its own; ranks that were never connected to it read it there (collectives/communicator/kept_goodbyes.h). The same
  // holds for a store that `rendezvous` names, if that store outlives the ranks: rondo run's, an external one.
  bool keeps_store = true;
  std::optional<Rank> rank = {};       // nullopt: the URL's or the environment's, else by arrival
  std::optional<int> world_size = {};  // nullopt: the URL's or the environment's
  // The job's secret, equal on all ranks: printable ASCII without blanks, at most 1024 bytes; 32 random bytes in
  // hexadecimal are good (base/access.h). Who cannot prove to know it becomes no peer and no client of a store over
  // TCP, and is not believed to be one; over file:// the file's permissions guard the store (docs/SECURITY.md). "": the
  // environment's RONDO_TOKEN, which rondo run makes for its ranks; where that is not set either, there is none.
  std::string token = {};
  std::string job = {};          // processes of different jobs refuse each other; "": the launcher's, or "default"
  std::uint64_t generation = 0;  // counts the meetings of one job on one store
  bool external_store = false;
  std::vector<std::string> addresses = {};  // forces local addresses, an IPoIB one too; empty: chosen by reachability
  // TLS 1.3 on all TCP connections, to ranks and to the store; the same mode on all ranks (base/tls.h, docs/TLS.md).
  // Fields left empty are the environment's; nullopt: all of it is (RONDO_TLS and others: rendezvous/tls_settings.h).
  // Files are read anew when the communicator is rebuilt. Bytes in shared memory are not encrypted.
  std::optional<TlsOptions> tls = {};
  std::string interface = {};  // forces interfaces: "eth0,ib0", "^docker0,lo", "=eth0", "10.0.0.0/8"
  // The TCP ports on which this process listens: for other ranks, and for the store where it serves one at a port that
  // nobody named. For firewalls that let nothing else in. nullopt: the environment's RONDO_PORTS, "FIRST-LAST"; where
  // that is not set either, any that the system chooses.
  std::optional<PortRange> ports = {};
  Path path = Path::kAuto;  // equal on all ranks
  // This rank's RDMA port: a device "mlx5_0", a port "mlx5_0:1" or an address that it has. Several, joined by "+": the
  // next ones stand by until one fails. "": those of the addresses where addresses or interfaces are forced, else all
  // active ones, the fastest first.
  std::string rdma_port = {};
  // Of the meeting, and of every operation; nullopt: the environment's RONDO_TIMEOUT, in seconds, which rondo run
  // --timeout sets, else 60 s.
  std::optional<Duration> timeout = {};
  Environment environment = {};  // null: there is none. The library itself never reads it
  Logger* logger = nullptr;
  // Counts who calls at this process's TCP port, foreign clients too; of all its generations together. Null: nobody
  // looks.
  std::shared_ptr<TcpCounters> tcp_counters = nullptr;
  // Rank, peers, transport, logger, timeout, job and generation are filled in. Where there is no profile: the
  // environment's RONDO_PROFILE, a file, else the one that ships.
  CommunicatorOptions communicator = {};
  // Keeps the store when the ranks have met, so that Communicator::Rebuild can go on after ranks were lost: one idle
  // connection (or one open file) a rank. Equal on all ranks. What is rebuilt is rebuildable too. The store must
  // outlive ranks: rondo run, rondo store and file:// do; one that a rank serves dies with it.
  bool rebuildable = false;
  // This process comes to a job that runs (`generation` is that of its first meeting), and is admitted when its ranks
  // rebuild with room for more: Connect waits for that, for `timeout`. Rank and world size are then given to it.
  // Implies rebuildable. The environment says it too: RONDO_JOIN=1, which rondo run --restarts sets.
  bool join = false;
};

// The environment of this process, for ConnectOptions::environment. For main() and other edges.
std::optional<std::string> ProcessEnvironment(const std::string& name);

// What Connect takes where its options say nothing, for who must know it before: RONDO_TIMEOUT, in seconds,
// RONDO_PORTS, a range, and RONDO_PROFILE, a file. Nothing, or null, where the variable is not set or empty. Errors
// name the variable.
Result<std::optional<Duration>> TimeoutIn(const Environment& environment);
Result<std::optional<PortRange>> PortsIn(const Environment& environment);
Result<std::shared_ptr<const Profile>> ProfileIn(const Environment& environment);

// Meets the other ranks within options.timeout and gives this rank's communicator. Unless that is to be rebuildable the
// store is given up again: nothing needs it afterwards (a rank that serves it does so until the others have met too).
// What keeps one rank from taking part (an address that it lacks, no descriptor, no port of its range) ends the meeting
// for all, with that rank's name and reason; a next try takes another generation.
// kAuth: this process and a peer, or the store, do not know the same token or could not prove by TLS to belong to one
// job, or one of them has none. Other errors: those of ParseInitMethod, FindTls, ReadProfile, TlsContext::Make,
// OpenStore, Join, MakeTcpTransport and Communicator::Create, and to newcomers those of RegroupAsNewcomer; each names
// the part at fault.
Result<std::unique_ptr<Communicator>> Connect(const ConnectOptions& options);

// What a meeting that connects nothing leaves.
struct Meeting {
  Rank rank = kNoRank;
  int world_size = 0;
  // In which the ranks have met, and in whose keys "rondo/..." are theirs. Where this process serves it, it ends with
  // the last copy of this.
  std::shared_ptr<Store> store;
};

// Meets the other ranks as Connect does, and gives the store: for programs that have a use of their own for one, and
// for who they are. Of options.communicator only what all ranks must have alike is looked at. Errors: those of Connect.
Result<Meeting> Meet(const ConnectOptions& options);

}  // namespace rondo
