// Starts the ranks of a job on this host and on others, and manages them until all have ended: the function behind
// `rondo run -N` and `rondo perf -N`.
//
// Every rank gets these variables:
//
//   - RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, RONDO_LAUNCHER.
//   - RONDO_JOB: an id that is new in every launch.
//   - RONDO_STORE, RONDO_EXTERNAL_STORE=1: the launcher itself serves the store at this address, so that no rank has to
//     start first. The kernel chooses its port. It listens on loopback, or on every interface if ranks run on other
//     hosts.
//   - MASTER_ADDR, MASTER_PORT: the address of rank 0's host, and a port on which nothing listens. A framework that
//     rendezvouses by these variables serves its own store there, in rank 0. On its own host the launcher keeps the
//     port from all programs that do not ask for its number.
//   - RONDO_TOKEN, the job's secret: that of this process if it has one, otherwise a new one for each launch.
//     Clients of the store must prove it (base/access.h).
//   - RONDO_TLS, if a TLS mode is given or set in this process: the store uses TLS too. A pre-shared key is
//     derived from the token. Without a token, ranks get RONDO_TLS_PSK: that of this process, or a new key.
//   - RONDO_PORTS, if a range of ports is given. The store's port is one of them.
//   - RONDO_TIMEOUT in seconds, if a timeout is given. rondo perf uses it as its own timeout.
//
// Variables by which another launcher (mpirun, srun, torchrun) described this process are removed: they do not describe
// the ranks.
//
// When a rank fails, the launcher ends the others. They first get a moment to detect and report the failure, then
// SIGTERM, then SIGKILL. With keep_going the launcher leaves the others alone: they can rebuild their communicator
// through the launcher's store. The failed rank may then be started again as a joiner, with RONDO_JOIN=1 and
// RONDO_RESTART: the number of this restart in the job.
//
// The launcher passes interrupts on to all ranks, and SIGUSR1 and SIGUSR2 too; at SIGUSR1 `rondo perf`
// The launcher passes interrupts on to all ranks, and SIGUSR1 and SIGUSR2 too. At SIGUSR1 `rondo perf` writes what its
// flight recorder holds. Whatever happens to the launcher, its ranks end with it.
// On other hosts an agent starts the ranks (remote_host.h), by ssh. All hosts must answer within the timeout before any
// rank is started. The ranks there have the environment that ssh gives them, our RONDO_ variables and the exported
// variables. In RONDO_STORE they get the address by which their host sees the launcher's, unless master_address is
// given. MASTER_ADDR is the address to which ssh connected on rank 0's host.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/net/ports.h"
#include "base/result.h"
#include "base/tls.h"
#include "tools/run/child_process.h"
#include "tools/run/host_list.h"

namespace rondo {

struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> command;
  std::string program = "rondo run";       // the launcher's name in its own messages
  std::vector<Rank> stdin_to;              // ranks that get our stdin; the stdin of the others is empty
  bool tag_output = true;                  // false: ranks inherit our stdout and stderr
  std::optional<int> explained_exit_code;  // a rank that exits with this code has reported its failure itself
  std::optional<Duration> timeout;         // for the rendezvous of the ranks, and for each operation
  bool with_token = true;                  // false: the job has no token, even if RONDO_TOKEN is set
  std::optional<TlsMode> tls;              // TLS mode of ranks and store; nullopt: what RONDO_TLS says
  std::optional<PortRange> ports;          // ports that ranks and store use; nullopt: those of RONDO_PORTS, or any
  bool keep_going = false;                 // a rank that fails does not end the others
  int restarts = 0;                // restarts of failed ranks, at most, in the whole job; > 0 implies keep_going
  std::vector<PlacedHost> places;  // hosts of the ranks; empty: all run on this host
  SshOptions ssh;                  // how to reach the other hosts
  std::string master_address;      // of this host, for ranks on others; "": the one by which each host sees this one
  Variables exported;              // for all ranks, in addition to RONDO_ variables
  Duration last_words = std::chrono::seconds(2);  // from the first failure to SIGTERM
  Duration grace = std::chrono::seconds(5);       // from SIGTERM to SIGKILL
};

// Returns when every rank has ended. The result is the exit code:
//
//   - 0 if no rank failed; with keep_going, if any rank exited with 0.
//   - otherwise that of the rank that failed first: 128 + signal if a signal killed it, 127 if the command cannot be
//     run.
//   - 128 + signal if a signal interrupted the launcher.
//   - 1 if our stdout or stderr could not be written, unless a rank had failed before.
//
// An error means that no rank was started, or that those that were have been ended again. kInvalidArgument: for
// example, RONDO_TOKEN is malformed, or a host lacks something. kUnreachable and kTimeout name the host. Messages go to
// stderr. REQUIRES: called from the main thread while no other thread runs, at most once per process, because it takes
// over the process's signals.
Result<int> Launch(const LaunchOptions& options, const Clock& clock);

// The path of this program; "" if the system does not tell.
std::string OwnPath();
// The command line of a rank that runs this program again: `command_line` with --launched appended, which marks a rank.
// REQUIRES: command_line begins with the name of the program.
std::vector<std::string> CommandOfARank(std::vector<std::string> command_line);

}  // namespace rondo
