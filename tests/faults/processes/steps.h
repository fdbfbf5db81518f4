// The steps of a rank's script. If a step fails, the rank reports "failed" with the error. It continues after the next
// step `recover`, or at the end of the script if there is none. At the end it destroys its objects and reports "clean",
// with the resources that remain.
//
//   connect [JOB_GENERATION]         connects to the other ranks
//   sums:N[:ELEMENTS]                computes N sums and checks them
//   work                             computes and checks sums until one fails
//   until:NAME                       computes and checks sums until rank 0 finds that the script has made the file NAME
//   call:COLLECTIVE:COUNT:TYPE:OP:ROOT    makes one call, without a check of its values
//   barrier, close, rebuild[:MIN]    the communicator's functions
//   drop                             destroys the communicator, even if operations are in flight
//   after                            computes one more sum and reports its outcome as "after"; this step never fails
//   async:N:ELEMENTS, wait           issues N sums, and waits for all of them
//   hold:NAME                        reports "held" and waits until the script has made the file NAME
//   sleep:MS                         sleeps outside the library
//   define:WHAT:K                    defines a user's reduction, on all ranks; at the K-th call of it this rank does
//                                    WHAT, which is none, kill, throw or slow. Later sums use it
//   kill, kill_in:US                 ends by SIGKILL, now or from another thread
//   abort:REASON, abort_in:US:REASON[:TIMES]    calls Abort, now or from other threads
//   abort_callback:REASON            calls Abort from the callback of a sum
//   fork                             forks a child, which destroys its copies of all objects and ends like main
//   fork_on:SECONDS                  forks a child, which sleeps for SECONDS with its copies of all objects, so that it
//                                    outlives this process
//   exec:SECONDS                     starts another program, which sleeps for SECONDS and outlives this process
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
#include "tests/faults/processes/status_page.h"

namespace rondo::processes {

struct RankFlags {
  ConnectOptions connect;
  Duration deadline = std::chrono::seconds(10);  // the timeout of each sum
  Duration settle = std::chrono::seconds(1);     // the settle time of a rebuild
  std::uint64_t seed = 1;
  std::string folder;  // the folder in which the script makes files that let a rank continue
};

// Runs all steps and returns the exit code: 0 if the end was reached, even if steps failed.
int RunScript(const RankFlags& flags, const std::vector<Step>& steps, StatusPage& status_page);

}  // namespace rondo::processes
