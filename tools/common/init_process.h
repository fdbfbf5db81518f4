// The first process of a container (process 1 of its PID namespace) has duties that no other one has.
#pragma once

namespace rondo {

// Where this is process 1, or was made a subreaper: processes whose parents have ended become its children, and it must
// reap them, or they stay in the table as zombies. And signals of which it does not say what they do, do nothing. So it
// starts a child that does the work, and stays to reap orphans and to hand signals on. Returns in the child, and
// anywhere else at once; the first process ends with its child, and its exit code is the child's.
//
// The child has a process group of its own, which is in the foreground where this one was, so that a signal from the
// keyboard comes to it once. REQUIRES: called while no other thread runs.
void ServeAsInit();

}  // namespace rondo
