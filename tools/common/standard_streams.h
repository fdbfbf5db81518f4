// Makes standard streams usable even if the parent process has closed their descriptors or made them non-blocking.
#pragma once

namespace rondo {

// Opens those of the descriptors 0 to 2 that are closed. Otherwise a socket, pipe or file could get such a number, and
// output for the user would be written into it. Reading and writing the opened descriptors still fails with EBADF.
// REQUIRES: called before anything else is opened.
void OpenStandardStreams();

// Makes the C streams stdout and stderr wait for room if the descriptor has O_NONBLOCK. Any process that shares the
// pipe or terminal may set this flag at any time. Without this function the C streams would drop bytes that do not fit.
// The descriptors are not changed. REQUIRES: called while no other thread runs, before anything is written.
void MakeStandardStreamsWait();

// Whether a write to this descriptor fails instead of waiting for room.
bool IsNonBlocking(int fd);

}  // namespace rondo
