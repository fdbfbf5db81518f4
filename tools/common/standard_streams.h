// Descriptors 0, 1 and 2 of a program, as whoever started it may have left them: closed, or such that writes do not
// wait.
#pragma once

namespace rondo {

// Opens those of descriptors 0 to 2 that are closed, so that no socket, pipe or file of ours gets their number: what is
// meant for people would get among its bytes. They stay of no use: reading or writing there fails with EBADF, as it did
// before. REQUIRES: called before anything else is opened.
void OpenStandardStreams();

// Makes what is written to the C streams stdout and stderr wait for room where the descriptor itself does not
// (O_NONBLOCK, which whoever shares the pipe or terminal may set at any time): by themselves they would drop what does
// not fit. The descriptors stay as they are. REQUIRES: called while no other thread runs, before anything is written.
void MakeStandardStreamsWait();

// Whether a write to this descriptor fails instead of waiting for room.
bool IsNonBlocking(int fd);

}  // namespace rondo
