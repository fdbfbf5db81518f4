// Support for Ctrl-C during a wait. Python runs signal handlers on its main thread, between two steps of Python code.
// So a wait in C++ must ask Python to run them.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

namespace rondo_torch {

// How often a wait checks for signals.
constexpr std::chrono::milliseconds kBetweenSignals{100};

// Runs Python's handlers of the signals that have arrived, and throws what one of them raises: KeyboardInterrupt after
// Ctrl-C. Takes Python's lock for that. It does nothing on threads other than Python's main thread.
void CheckSignals();

// Like CheckSignals, for callers that must not throw: returns true if a handler raises. A KeyboardInterrupt is raised
// again as soon as Python runs.
bool EndsBySignal() noexcept;

// A flag that RunInterruptibly passes to its call. True: the caller has stopped waiting, so the results of the call are
// not needed.
using GivenUp = std::atomic<bool>;

// Runs `call`, which may wait for a long time, and throws what it throws. If a signal handler raises, this function
// returns at once by that exception. The call then continues in its own thread, so it must own everything it uses. On
// threads other than Python's main thread the call runs directly. Python's lock is released meanwhile.
void RunInterruptibly(std::function<void(const GivenUp& given_up)> call);

}  // namespace rondo_torch
