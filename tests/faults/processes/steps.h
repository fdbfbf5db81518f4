// The steps of a rank's script. Where a step fails, the rank says "failed" with the error and goes on behind the next
// step `recover`; without one, to the end. There it destroys what it has and says "clean", with what is left over of
// it.
//
//   connect [JOB_GENERATION]         meets the others
//   sums:N[:ELEMENTS]                so many checked sums
//   work                             checked sums until one fails
//   until:NAME                       checked sums until the script has made the file NAME; rank 0 tells the others
//   call:COLLECTIVE:COUNT:TYPE:OP:ROOT    one call, whose values are not looked at
//   barrier, close, rebuild[:MIN]    of the communicator
//   drop                             destroys the communicator, whatever is under way
//   after                            one more sum; says "after" with what came of it, and never fails
//   async:N:ELEMENTS, wait           so many sums issued, then waited for
//   hold:NAME                        says "held" and waits until the script has made the file NAME
//   sleep:MS                         outside of the library
//   define:WHAT:K                    a reduction of the user's, on all ranks; at its K-th call this one does WHAT,
//                                    which is none, kill, throw or slow. The sums after it use it
//   kill, kill_in:US                 dies by SIGKILL, now or by another thread
//   abort:REASON, abort_in:US:REASON[:TIMES]    Abort, now or by other threads
//   abort_callback:REASON            Abort from the callback of a sum
//   fork                             a child that has a copy of everything, destroys it and ends as main does
//   fork_on:SECONDS                  a child that has a copy of everything and sleeps, beyond the end of this process
//   exec:SECONDS                     a child that is another program, and outlives this one
//   on_term                          SIGTERM is answered by Abort from now on, as tools/common/interrupt.h does
//   jump:SECONDS                     the wall clock, for this process
//   limit:nofile:MORE, limit:nproc:MORE, limit:off    how many more descriptors, or threads, the system gives
//   user:ID                          becomes another user
//   dump:REASON                      says "records" with the flight recorder's
//   recover                          where to go on after an error; nothing by itself
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/connect.h"
#include "tests/faults/processes/checked_sums.h"
#include "tests/faults/processes/footprint.h"
#include "tests/faults/processes/script.h"
#include "tests/faults/processes/witness.h"

namespace rondo::processes {

struct RankFlags {
  ConnectOptions connect;
  Duration deadline = std::chrono::seconds(10);  // of each sum
  Duration settle = std::chrono::seconds(1);     // of a rebuild
  std::uint64_t seed = 1;
  std::string folder;  // where the script makes files to let a rank go on
};

// Runs all of them, and gives the exit code: 0, whatever failed, as long as the end was reached.
int RunScript(const RankFlags& flags, const std::vector<Step>& steps, Witness& witness);

}  // namespace rondo::processes
