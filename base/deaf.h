// Signals belong to the application's threads. Threads that Rondo starts, or makes a library start, have signals
// blocked.
#pragma once

#include <pthread.h>

#include <csignal>
#include <initializer_list>

namespace rondo {

// Blocks signals in the current thread until destruction. A thread that is created meanwhile inherits the mask and
// keeps signals blocked. Signals that a thread causes itself (SIGSEGV and the like) and a profiler's SIGPROF stay
// unblocked.
class DeafToSignals {
 public:
  DeafToSignals() {
    sigset_t deaf;
    sigfillset(&deaf);
    for (const int heard : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF})
      sigdelset(&deaf, heard);
    pthread_sigmask(SIG_BLOCK, &deaf, &before_);
  }
  ~DeafToSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  DeafToSignals(const DeafToSignals&) = delete;
  DeafToSignals& operator=(const DeafToSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace rondo
