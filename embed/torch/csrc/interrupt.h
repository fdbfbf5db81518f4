// Ctrl-C in what waits. Python runs handlers of signals on its main thread, between two steps of its own; a wait in C++
// must ask for them itself.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

namespace rondo_torch {

// How long a wait goes on between two questions.
constexpr std::chrono::milliseconds kBetweenSignals{100};

// Runs Python's handlers of signals that have come, and throws what one of them raises: KeyboardInterrupt after Ctrl-C.
// Takes Python's lock for that. On other threads than Python's main thread it does nothing.
void CheckSignals();

// The same for what must not throw: true if a handler raises. A KeyboardInterrupt is raised again as soon as Python
// runs.
bool EndsBySignal() noexcept;

// What RunInterruptibly gives to its call. True: the caller is gone, so nothing that the call makes is of use.
using GivenUp = std::atomic<bool>;

// Runs `call`, which may wait for long, and throws what it throws. A handler of signals that raises ends this function
// at once: then the call goes on by itself in a thread of its own, so it must own whatever it uses. On other threads
// than Python's main thread the call simply runs. Python's lock is released meanwhile.
void RunInterruptibly(std::function<void(const GivenUp& given_up)> call);

}  // namespace rondo_torch
