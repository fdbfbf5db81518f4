// Starts the ranks of a job on this host and on other hosts, and manages them until all have ended. `rondo run -N` and
// `rondo perf -N` use it.
//
// Every rank gets these variables:
//
//   - RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, RONDO_LAUNCHER.
//   - RONDO_JOB: an id that is new in every launch.
//   - RONDO_STORE, RONDO_EXTERNAL_STORE=1: the launcher itself serves the store at this address, so that no rank has to
//     start first. The kernel chooses the store's port, unless a range of ports is given. The store listens on
//     loopback, or on every interface if ranks run on other hosts.
//   - MASTER_ADDR, MASTER_PORT: the address of rank 0's host, and a port on which nothing listens. A framework that
//     uses these variables for its rendezvous serves its own store there, in rank 0. On its own host the launcher
//     reserves the port, so the system gives it only to programs that ask for its number.
//   - RONDO_TOKEN, the job's secret: the token of this process if it has one, otherwise a new token for each launch.
//     Clients of the store must prove that they know it (base/access.h).
//   - RONDO_TLS, if a TLS mode is given or set in this process. The store then also uses TLS. A pre-shared key is
//     derived from the token. Without a token, ranks get RONDO_TLS_PSK with the key of this process, or with a new key.
//   - RONDO_PORTS, if a range of ports is given. The store's port is one of them.
//   - RONDO_TIMEOUT in seconds, if a timeout is given. rondo perf uses it as its own timeout.
//
// Variables that another launcher (mpirun, srun, torchrun) set for this process are removed, because they do not
// describe the ranks.
//
// When a rank fails, the launcher ends the others. They first get a short time to detect and report the failure, then
// SIGTERM, then SIGKILL. With keep_going the launcher does not end the others, so they can rebuild their communicator
// through the launcher's store. The failed rank may then be started again as a joiner, with RONDO_JOIN=1 and
// RONDO_RESTART: the number of this restart in the job.
//
// The launcher passes interrupts, SIGUSR1 and SIGUSR2 on to all ranks. At SIGUSR1 `rondo perf` writes the contents of
// its flight recorder. When the launcher ends, for whatever reason, its ranks end, too.
//
// On other hosts an agent (remote_host.h) starts the ranks. The launcher starts the agent by ssh. All hosts must answer
// within the timeout before any rank is started. The ranks on other hosts have the environment that ssh gives them, our
// RONDO_ variables and the exported variables. Their RONDO_STORE contains master_address if it is given, otherwise the
// address from which the launcher's ssh reached their host. MASTER_ADDR is the address to which ssh connected on rank
// 0's host.
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
  std::optional<Duration> timeout;         // the time limit for the rendezvous of the ranks, and for each operation
  bool with_token = true;                  // false: the job has no token, even if RONDO_TOKEN is set
  std::optional<TlsMode> tls;              // TLS mode of ranks and store; nullopt: the value of RONDO_TLS
  // Ports that ranks and store use; nullopt: the value of RONDO_PORTS, otherwise any port.
  std::optional<PortRange> ports;
  bool keep_going = false;  // true: if a rank fails, the other ranks continue
  int restarts = 0;         // the largest number of restarts of failed ranks in the whole job; > 0 implies keep_going
  std::vector<PlacedHost> places;  // hosts of the ranks; empty: all run on this host
  SshOptions ssh;                  // how to reach the other hosts
  // The address of this host for ranks on other hosts. "": for each other host, the address from which ssh reached that
  // host.
  std::string master_address;
  Variables exported;                              // more variables for all ranks, in addition to RONDO_ variables
  Duration report_time = std::chrono::seconds(2);  // the time from the first failure to SIGTERM
  Duration grace = std::chrono::seconds(5);        // the time from SIGTERM to SIGKILL
};

// Returns when every rank has ended. The result is the exit code:
//
//   - 0 if no rank failed; with keep_going, if any rank exited with 0.
//   - otherwise the exit code of the rank that failed first: 128 + signal if a signal killed it, 127 if the command
//     cannot be run.
//   - 128 + signal if a signal interrupted the launcher.
//   - 1 if our stdout or stderr could not be written, unless a rank had failed before.
//
// An error means that no rank was started, or that all started ranks have been ended again. kInvalidArgument: for
// example, RONDO_TOKEN is malformed, or a host has no rondo. kUnreachable and kTimeout name the host. Messages go to
// stderr. REQUIRES: called from the main thread while no other thread runs, at most once per process, because it takes
// over the process's signals.
Result<int> Launch(const LaunchOptions& options, const Clock& clock);

// The path of this program; "" if the system does not provide it.
std::string OwnPath();
// The command line of a rank that runs this program again: `command_line` with --launched appended, which marks a rank.
// REQUIRES: command_line begins with the name of the program.
std::vector<std::string> CommandOfARank(std::vector<std::string> command_line);

}  // namespace rondo
