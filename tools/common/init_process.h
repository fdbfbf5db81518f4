// Performs the duties of the first process of a container (process 1 of its PID namespace).
#pragma once

namespace rondo {

// Process 1 and subreapers have special duties. Processes whose parents have ended become their children, and remain
// zombies until they are reaped. Also, the kernel drops signals that process 1 does not handle. If this process is
// process 1 or a subreaper, this function starts a child and returns only in the child, which continues the program.
// This process then only reaps children and forwards signals. It ends when that child ends, with the same exit code. In
// any other process the function returns at once.
//
// The child has a process group of its own. That group is in the foreground if this process was, so that the
// terminal's signals reach the child exactly once. REQUIRES: called while no other thread runs.
void ServeAsInit();

}  // namespace rondo
