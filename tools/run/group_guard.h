// A guard process beside the launcher. It kills the ranks' process groups when the launcher has ended, for whatever
// reason, and stops them as long as the launcher is stopped.
//
// The kernel kills a child with its parent (PR_SET_PDEATHSIG), but not the processes that this child has started. If a
// rank is a script, the program that the script runs would survive. The guard knows the process groups of all ranks,
// does nothing but wait for the launcher's end, and then kills these groups.
//
// A launcher that is stopped by SIGSTOP, which it cannot catch, reads no output of its ranks. The ranks would go on
// until their pipes are full, and then wait for each other until a timeout fails the job. The kernel reports a stop
// only to the parent process. So the guard reads the launcher's state in /proc several times a second, and stops and
// continues the ranks with their launcher.
//
// Thread rule: one thread. REQUIRES: made before this process starts any other thread.
#pragma once

#include <sys/types.h>

#include "base/net/fd.h"

namespace rondo {

class GroupGuard {
 public:
  // If the guard process cannot be started, only PR_SET_PDEATHSIG ends the ranks.
  GroupGuard();

  // Registers a group. May be called again for the same group, and by the group's own process between fork and exec.
  void Add(pid_t group) { Tell(group); }
  // Forgets a group whose leader has been reaped: the system may give its number to another group.
  void Remove(pid_t group) { Tell(-group); }

 private:
  void Tell(pid_t word);

  Fd to_guard_;
};

}  // namespace rondo
