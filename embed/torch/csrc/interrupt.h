// Support for Ctrl-C during a wait. Python runs signal handlers on its main thread, between two steps of Python code.
// So a wait in C++ must ask Python to run the handlers.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

namespace rondo_torch {

// How often a wait checks for signals.
constexpr std::chrono::milliseconds kBetweenSignals{100};

// Runs Python's handlers for the signals that have arrived. If a handler raises an exception (KeyboardInterrupt after
// Ctrl-C), this function throws it. It takes Python's lock while handlers run. It does nothing on threads other than
// Python's main thread.
void CheckSignals();

// Like CheckSignals, for callers that must not throw. It returns true if a handler raises an exception. A
// KeyboardInterrupt is raised again as soon as Python code runs.
bool EndsBySignal() noexcept;

// A flag that RunInterruptibly passes to its call. True: the caller has stopped waiting, so the results of the call are
// not needed.
using GivenUp = std::atomic<bool>;

// Runs `call`, which may wait for a long time, and passes its exceptions on. If a signal handler raises an exception,
// this function throws it at once. The call then continues in its own thread, so it must own everything it uses. On
// threads other than Python's main thread the call runs directly. Python's lock is released during the call.
void RunInterruptibly(std::function<void(const GivenUp& given_up)> call);

}  // namespace rondo_torch
