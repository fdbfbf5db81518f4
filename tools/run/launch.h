// Starts the ranks of a job, on this host and on others, and sees them through: what `rondo run -N` and `rondo perf -N`
// do.
//
// Every rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, RONDO_JOB (an id new in every launch),
// RONDO_LAUNCHER, RONDO_STORE and RONDO_EXTERNAL_STORE=1: the launcher itself serves the store there, on a port that
// the kernel chose, so that no rank has to be first: of the loopback, or, where ranks run on other hosts, of every
// interface. MASTER_ADDR and MASTER_PORT are the address of rank 0's host and a port that nothing listens on: where a
// framework meets by these, its own store is served there by rank 0. The launcher keeps the port from all who do not
// name it. Variables by which another launcher described this process (of mpirun, srun, torchrun) are taken away from
// the ranks: what it said is not true of them.
// RONDO_TOKEN, the job's secret, is made anew for each launch unless this process has one already, which is then handed
// on; the store is served by it (base/access.h). RONDO_TLS is handed on and the store speaks it too; a pre-shared key
// comes from the token, and where there is none ranks get RONDO_TLS_PSK, a new one unless this process has one.
// RONDO_PORTS is added where a range of ports is given; the store's is one of them. RONDO_TIMEOUT, in seconds, is added
// where a timeout is given; rondo perf takes it for its own.
//
// The first rank that fails ends the others: they get a moment to see it and say what they know, then SIGTERM, then
// SIGKILL. With keep_going it does not: the others are left alone, for they can rebuild their communicator in the
// store, which is here, and the rank may be started again, as a newcomer (RONDO_JOIN=1, RONDO_RESTART: the how manyth
// of the job). An interrupt is passed on to all, and so is SIGUSR1, by which `rondo perf` leaves its records. Whatever
// happens to the launcher, its ranks end with it.
//
// On other hosts an agent starts them (remote_host.h), by ssh. All hosts must have answered within the timeout before
// any rank is started. Ranks there find the environment that ssh gives them, our RONDO_ variables and what is exported;
// the store's address is then the one by which that host sees this one, unless one is given, and MASTER_ADDR the one to
// which ssh came on rank 0's host.
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
  std::vector<Rank> stdin_to;              // ranks that get our stdin; the others have an empty one
  bool tag_output = true;                  // false: ranks write to our stdout and stderr themselves
  std::optional<int> explained_exit_code;  // a rank that exits with it has said why itself
  std::optional<Duration> timeout;         // for the ranks to meet, and for each operation
  bool with_token = true;                  // false: the job has none, whatever RONDO_TOKEN says
  std::optional<TlsMode> tls;              // of ranks and store; nullopt: what RONDO_TLS says
  std::optional<PortRange> ports;          // on which ranks and store listen; nullopt: what RONDO_PORTS says, or any
  bool keep_going = false;                 // a rank that fails does not end the others
  int restarts = 0;                // ranks that fail are started again, so often in all; more than 0 implies keep_going
  std::vector<PlacedHost> places;  // of the ranks; empty, or all of them here: this host
  SshOptions ssh;                  // to the others
  std::string master_address;      // of this host, where there are others; "": as each of them sees us
  Variables exported;              // for all ranks, beside RONDO_ variables
  Duration last_words = std::chrono::seconds(2);  // from the first failure to SIGTERM
  Duration grace = std::chrono::seconds(5);       // from SIGTERM to SIGKILL
};

// Returns when every rank has ended, with the exit code: 0, the one of the rank that failed first (128 + signal where
// one killed it; 127 where the command cannot be run), or 130 when interrupted. With keep_going it is 0 if any rank
// ended with 0: those who had to go on without the others did. An error means that nothing was started, or no more than
// was ended again (among others kInvalidArgument: RONDO_TOKEN has a wrong shape, or a host lacks what it needs;
// kUnreachable and kTimeout name the host). Messages go to stderr. REQUIRES: called from the main thread while
// no other thread runs, once per process (it takes the process's signals).
Result<int> Launch(const LaunchOptions& options, const Clock& clock);

// The path of this program; "" where it is not to be had.
std::string OwnPath();
// This process again, by its own command line, with --launched, which says that it is one of the ranks. REQUIRES: the
// command line has the program's name.
std::vector<std::string> CommandOfARank(std::vector<std::string> command_line);

}  // namespace rondo
