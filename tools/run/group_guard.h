// Ends the ranks' process groups when their launcher is gone, however it went, and stops them while it is stopped.
//
// The kernel ends a child with its parent (PR_SET_PDEATHSIG), but not what that child has started: a rank that is a
// script would leave the program behind that it runs. So a process beside the launcher, which does nothing but wait for
// the launcher's end, knows the groups and kills them then.
//
// A launcher that is stopped (by SIGSTOP, which it cannot see) takes no output: ranks would go on until pipes are full,
// and then let each other wait until that is an error. The kernel tells of a stop only to a process's parent, so the
// guard looks at /proc, several times a second, and has the ranks stop and go on with their launcher.
//
// Thread rule: one thread. REQUIRES: made before any other thread.
#pragma once

#include <sys/types.h>

#include "base/net/fd.h"

namespace rondo {

class GroupGuard {
 public:
  // Where there is no process to be had there is no guard, and the kernel's word alone holds.
  GroupGuard();

  // Any number of times; also by the group's own process, between fork and exec.
  void Add(pid_t group) { Tell(group); }
  // Reaped: its number may be another one's soon.
  void Remove(pid_t group) { Tell(-group); }

 private:
  void Tell(pid_t word);

  Fd to_guard_;
};

}  // namespace rondo
