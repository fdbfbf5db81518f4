// A guard process that watches the launcher. It kills the ranks' process groups when the launcher has ended, for
// whatever reason. While the launcher is stopped, the guard keeps the ranks stopped, too.
//
// When a parent process ends, the kernel kills its child (PR_SET_PDEATHSIG), but not the processes that this child has
// started. If a rank is a script, the program that the script runs would survive. The guard knows the process groups of
// all ranks. It waits for the end of the launcher, and then kills these groups.
//
// A launcher that is stopped by SIGSTOP, which it cannot catch, reads no output of its ranks. The ranks would run until
// their pipes are full, and then wait for each other until a timeout fails the job. So the ranks must stop together
// with the launcher. The kernel reports a stop only to the parent process, so the guard reads the launcher's state in
// /proc several times a second.
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
  void Add(pid_t group) { Send(group); }
  // Removes a group whose leader has been reaped, because the system may give its number to another group.
  void Remove(pid_t group) { Send(-group); }

 private:
  void Send(pid_t word);

  Fd to_guard_;
};

}  // namespace rondo
