// The steps of a rank's script. If a step fails, the rank reports "failed" with the error and continues after the next
// step `recover`, or at the end if there is none. At the end it destroys its objects and reports "clean", with the
// resources that are left.
//
//   connect [JOB_GENERATION]         meets the others
//   sums:N[:ELEMENTS]                takes N checked sums
//   work                             takes checked sums until one fails
//   until:NAME                       takes checked sums until the script has made the file NAME; rank 0 shares that
//   call:COLLECTIVE:COUNT:TYPE:OP:ROOT    makes one call, without a check of its values
//   barrier, close, rebuild[:MIN]    the communicator's functions
//   drop                             destroys the communicator, even if operations are in flight
//   after                            takes one more sum and reports its outcome as "after"; this step never fails
//   async:N:ELEMENTS, wait           issues N sums, and waits for all of them
//   hold:NAME                        reports "held" and waits until the script has made the file NAME
//   sleep:MS                         sleeps outside the library
//   define:WHAT:K                    defines a user's reduction, on all ranks; at the K-th call of it this rank does
//                                    WHAT, which is none, kill, throw or slow. Later sums use it
//   kill, kill_in:US                 ends by SIGKILL, now or from another thread
//   abort:REASON, abort_in:US:REASON[:TIMES]    calls Abort, now or from other threads
//   abort_callback:REASON            calls Abort from the callback of a sum
//   fork                             forks a child, which destroys its copies of all objects and ends like main
//   fork_on:SECONDS                  forks a child, which sleeps with its copies of all objects, longer than this
//                                    process lives
//   exec:SECONDS                     starts another program, which outlives this process
//   on_term                          from now on SIGTERM causes Abort, as in tools/common/interrupt.h
//   jump:SECONDS                     changes the wall clock, for this process
//   limit:nofile:MORE, limit:nproc:MORE, limit:off    limits how many more descriptors, or threads, the system gives
//   user:ID                          becomes another user
//   dump:REASON                      reports the flight recorder's contents as "records"
//   recover                          does nothing; marks where to continue after an error
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
  Duration deadline = std::chrono::seconds(10);  // for each sum
  Duration settle = std::chrono::seconds(1);     // for a rebuild
  std::uint64_t seed = 1;
  std::string folder;  // the folder in which the script makes files to let a rank continue
};

// Runs all steps and returns the exit code: 0 if the end was reached, even if steps failed.
int RunScript(const RankFlags& flags, const std::vector<Step>& steps, Witness& witness);

}  // namespace rondo::processes
