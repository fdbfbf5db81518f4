// The duties of the first process of a container (process 1 of its PID namespace).
#pragma once

namespace rondo {

// Makes a process that is process 1 or a subreaper do its duties. Processes whose parents have ended become its
// children. It must reap them, otherwise they remain as zombies. Also, the kernel drops signals that process 1 does not
// handle. So this function starts a child that does the work, and keeps the first process to reap orphans and forward
// signals. It returns in the child. In any other process it returns at once. The first process ends with its child,
// with the same exit code.
//
// The child has a process group of its own. That group is in the foreground if the first process was, so that the
// terminal's signals reach the child exactly once. REQUIRES: called while no other thread runs.
void ServeAsInit();

}  // namespace rondo
